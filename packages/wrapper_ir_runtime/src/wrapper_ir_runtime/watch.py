"""Ends a process whose device waits for another process that has ended or hangs.

Kernels over symmetric memory wait for each other on the device, without a time-out, and NCCL's watchdog does
not know them. On two H100 with torch 2.11, a process whose host waited for NCCL still existed four times the
group's time-out after another one was killed.

Each process of a group therefore counts in the group's store while it lives, and publishes how many calls of
programs in the group it has begun. It also reads the counts of the others. A process cannot continue if, for
the group's time-out in total, another process does not count or does not begin a call that this one has
begun, and the device is not idle. It then reports this and aborts, as NCCL's watchdog does. A process whose
device is idle continues: the other process may have ended normally.
"""

from __future__ import annotations

import os
import sys
import threading
import time
import weakref
from collections.abc import Callable
from datetime import timedelta
from typing import NamedTuple, Protocol, Self

_PREFIX = "wrapper_ir/alive"
_LOOK, _SILENCE, _STUCK = 1 / 16, 5 / 16, 7 / 16
"""Fractions of the time-out: between two checks, for which another process may be silent, and for which the
device is then queried. Their sum leaves time to end. With 1/8, 3/8 and 1/2, a process that replayed graphs
ended 12.02 s after the other one was killed, with a time-out of 12 s."""


class TorchStore(Protocol):
    """Methods of `torch.distributed.Store`."""

    @property
    def timeout(self) -> timedelta:
        """The time that `get` waits for a key."""

    def set(self, key: str, value: str, /) -> None:
        """Writes a key."""

    def get(self, key: str, /) -> bytes:
        """Waits for a key."""

    def check(self, keys: list[str], /) -> bool:
        """Returns whether all keys are written."""

    def clone(self) -> Self:
        """Returns another connection to the store."""


class TorchGroup(Protocol):
    """Methods of `torch.distributed.ProcessGroup`."""

    def rank(self) -> int:
        """Returns the rank of this process."""

    def size(self) -> int:
        """Returns the number of processes."""


class _Seen(NamedTuple):
    """Last counts of another process, and the times since which they are unchanged."""

    beat: bytes
    beat_since: float
    calls: bytes
    calls_since: float


class GroupWatch(threading.Thread):
    """The thread that watches one group.

    `seconds` is the time-out. If counts are unchanged for a part of it, `is_stuck` waits for the device for
    another part, and `give_up` ends the process if the device is not idle. `calls` returns the number of
    calls that this process has begun.
    """

    def __init__(
        self,
        store: TorchStore,
        member: tuple[int, int],
        seconds: float,
        is_stuck: Callable[[float], bool],
        calls: Callable[[], int],
        give_up: Callable[[str], None],
    ) -> None:
        """`member` is this process's rank and the group's size."""
        super().__init__(name="wrapper_ir group watch", daemon=True)
        self._store, self._seconds = store, seconds
        self._rank, self._size = member
        self._is_stuck, self._calls, self._give_up = is_stuck, calls, give_up
        self._seen: dict[int, _Seen] = {}
        self._own = (-1, 0.0)
        """Number of calls that this process has begun, and since when."""

    def run(self) -> None:
        """Counts and checks the others 16 times in the time-out."""
        beat = 0
        while True:
            beat += 1
            why = self._look(beat)
            if why and self._is_stuck(self._seconds * _STUCK):
                self._give_up(why)
                return
            time.sleep(self._seconds * _LOOK)

    def _look(self, beat: int) -> str:
        """Returns which process has made no progress for too long, or ''."""
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
        except RuntimeError as error:  # the store ended with the process that hosted it
            return f"the group's store does not answer: {str(error).splitlines()[0]}"
        return ""

    def _judge(self, rank: int, message: bytes, now: float) -> str:
        beat, _, calls = message.partition(b" ")
        before = self._seen.get(rank, _Seen(b"", now, b"", now))
        status = self._seen[rank] = _Seen(
            beat,
            before.beat_since if beat == before.beat else now,
            calls,
            before.calls_since if calls == before.calls else now,
        )
        limit = self._seconds * _SILENCE
        if now - status.beat_since > limit:
            return f"rank {rank} has not been heard of for {now - status.beat_since:.0f} s"
        # The device is queried only if this process is ahead and idle: a query breaks the capture of a graph.
        behind = int(calls or b"0") < self._own[0]
        if behind and min(now - status.calls_since, now - self._own[1]) > limit:
            begun = f"rank {rank} has begun {int(calls)} calls, this process {self._own[0]}"
            return f"{begun}, none for {limit:.0f} s"
        return ""


class GroupWatches:
    """The watches of this process, by group name. `calls` counts the calls that this process has begun in
    each group."""

    def __init__(self) -> None:
        self._begun: dict[str, weakref.ref[TorchGroup]] = {}
        self.calls: dict[str, int] = {}

    def begin(
        self, name: str, group: TorchGroup, store: TorchStore, is_stuck: Callable[[float], bool]
    ) -> GroupWatch | None:
        """Starts to watch a group at its first use, or if another group has its name.

        Returns None if the group is watched already, has one process, or has a store that cannot be cloned
        for another thread. The time-out is that of the store.
        """
        watched = self._begun.get(name)
        if watched is not None and watched() is group:
            return None
        self._begun[name] = weakref.ref(group)
        if group.size() < 2 or not hasattr(store, "clone"):
            return None
        try:
            own_store = store.clone()  # a thread that waits in a store locks it
        except RuntimeError:
            return None
        member, seconds = (group.rank(), group.size()), store.timeout.total_seconds()
        watch = GroupWatch(own_store, member, seconds, is_stuck, lambda: self.calls.get(name, 0), _abort)
        watch.start()
        return watch


GROUP_WATCHES = GroupWatches()
"""The watches of this process."""


def _abort(why: str) -> None:
    text = f"[WIR935] {why}, and the device waits for it: this process ends\n"
    sys.stderr.write(text)
    sys.stderr.flush()
    os.abort()
