"""Ends a process whose device waits for another process that has ended or hangs.

Kernels over symmetric memory wait for each other on the device, without a time-out, and no watchdog of NCCL knows them; and on two H100
with torch 2.11, a process whose host waited for NCCL was still there four times the group's time-out after another one was killed. So
each process of a group counts in the group's store while it lives, says how many calls of programs in the group it has begun, and looks at
what the others say. Where another process no longer counts, or does not begin a call that this one has begun, and the device does not come
to rest, together for the group's time-out, this process cannot go on: it says so, and aborts, as NCCL's watchdog does. A process whose
device is at rest goes on: the other one may have ended in its own right.
"""

from __future__ import annotations

import os
import sys
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

_PREFIX = "wrapper_ir/alive"
_LOOK, _SILENCE, _STUCK = 1 / 16, 5 / 16, 7 / 16
"""Shares of the time-out: between two looks, for which another process may be silent, and for which the device then is asked. Their sum leaves time
to end: with 1/8, 3/8 and 1/2 a process that replayed graphs ended 12.02 s after the other one was killed, of 12 s."""
# Any in this file: process groups and their stores, which the tensor library leaves untyped


class _Seen(NamedTuple):
    """What another process has said, and since when its counts stand still."""

    beat: bytes
    beat_since: float
    calls: bytes
    calls_since: float


class GroupWatch(threading.Thread):
    """One thread a group. `seconds` is the time-out: counts may stand still for a part of it; `is_stuck` says after another part whether the
    device has not come to rest, and `give_up` ends the process. `calls` counts the calls that this process has begun."""

    def __init__(
        self,
        store: Any,
        member: tuple[int, int],
        seconds: float,
        is_stuck: Callable[[float], bool],
        calls: Callable[[], int],
        give_up: Callable[[str], None],
    ) -> None:
        """`member` is this process's rank in the group, and the group's size."""
        super().__init__(name="wrapper_ir group watch", daemon=True)
        self._store, self._seconds = store, seconds
        self._rank, self._size = member
        self._is_stuck, self._calls, self._give_up = is_stuck, calls, give_up
        self._seen: dict[int, _Seen] = {}
        self._own = (-1, 0.0)
        """Calls that this process had begun, and since when."""

    def run(self) -> None:
        """Counts, and looks, 16 times in the time-out."""
        beat = 0
        while True:
            beat += 1
            why = self._look(beat)
            if why and self._is_stuck(self._seconds * _STUCK):
                self._give_up(why)
                return
            time.sleep(self._seconds * _LOOK)

    def _look(self, beat: int) -> str:
        """Which process has stood still too long; '' for none."""
        now, calls = time.monotonic(), self._calls()
        if calls != self._own[0]:
            self._own = (calls, now)
        try:
            self._store.set(f"{_PREFIX}/{self._rank}", f"{beat} {calls}")
            for rank in range(self._size):
                key = f"{_PREFIX}/{rank}"
                if rank == self._rank or not self._store.check([key]):
                    continue
                why = self._judge(rank, bytes(self._store.get(key)), now)
                if why:
                    return why
        except RuntimeError as error:  # the store went with the process that held it
            return f"the group's store does not answer: {str(error).splitlines()[0]}"
        return ""

    def _judge(self, rank: int, said: bytes, now: float) -> str:
        beat, _, calls = said.partition(b" ")
        before = self._seen.get(rank, _Seen(b"", now, b"", now))
        seen = self._seen[rank] = _Seen(
            beat,
            before.beat_since if beat == before.beat else now,
            calls,
            before.calls_since if calls == before.calls else now,
        )
        limit = self._seconds * _SILENCE
        if now - seen.beat_since > limit:
            return f"rank {rank} has not been heard of for {now - seen.beat_since:.0f} s"
        # a device is asked only where this process is ahead and begins no call: it may be recording a graph, which nobody may disturb
        behind = int(calls or b"0") < self._own[0]
        if behind and min(now - seen.calls_since, now - self._own[1]) > limit:
            return f"rank {rank} has begun {int(calls)} calls, this process {self._own[0]}, none for {limit:.0f} s"
        return ""


class GroupWatches:
    """Which groups are watched, by name; `calls` counts the calls of programs in a group that this process has begun."""

    def __init__(self) -> None:
        self._begun: dict[str, weakref.ref[Any]] = {}
        self.calls: dict[str, int] = {}

    def begin(
        self, name: str, group: Any, store: Any, is_stuck: Callable[[float], bool]
    ) -> GroupWatch | None:
        """Watches a group from its first use on; another one under the same name anew. None where it is watched already, has one
        process, or has a store that a thread of its own cannot use. The time-out is that of the store."""
        known = self._begun.get(name)
        if known is not None and known() is group:
            return None
        self._begun[name] = weakref.ref(group)
        if group.size() < 2 or not hasattr(store, "clone"):
            return None
        try:
            own = store.clone()  # a wait of another thread holds a store's lock
        except RuntimeError:
            return None
        member, seconds = (group.rank(), group.size()), store.timeout.total_seconds()
        watch = GroupWatch(own, member, seconds, is_stuck, lambda: self.calls.get(name, 0), _abort)
        watch.start()
        return watch


GROUP_WATCHES = GroupWatches()
"""Those of this process."""


def _abort(why: str) -> None:
    text = f"[WIR935] {why}, and the device waits for it: this process ends\n"
    sys.stderr.write(text)
    sys.stderr.flush()
    os.abort()
