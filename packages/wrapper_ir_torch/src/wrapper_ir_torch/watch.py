"""Ends a process whose device waits for another process that has ended.

Kernels over symmetric memory wait for each other on the device, without a time-out, and no watchdog of NCCL knows them; and on two H100
with torch 2.11, a process whose host waited for NCCL was still there four times the group's time-out after another one was killed. So
each process of a group counts in the group's store while it lives, and looks at the others' counts. Where one stands still and the device
does not come to rest, together for the group's time-out, this process cannot go on: it says so, and aborts, as NCCL's watchdog does. A
process whose device is at rest goes on: the other one may have ended in its own right.
"""

from __future__ import annotations

import os
import sys
import threading
import time
import weakref
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from wrapper_ir_torch._compat import find_group

__all__ = ["GROUP_WATCHES", "GroupWatch", "GroupWatches"]

_PREFIX = "wrapper_ir/alive"


class GroupWatch(threading.Thread):
    """One thread a group. `seconds` is the time-out: a count may stand still for three eighths of it; `is_stuck` says after half of it
    whether the device has not come to rest, and `give_up` ends the process."""

    def __init__(
        self,
        store: Any,  # Any: torch leaves it untyped
        rank: int,
        size: int,
        seconds: float,
        is_stuck: Callable[[float], bool],
        give_up: Callable[[str], None],
    ) -> None:
        super().__init__(name="wrapper_ir group watch", daemon=True)
        self._store, self._rank, self._size, self._seconds = store, rank, size, seconds
        self._is_stuck, self._give_up = is_stuck, give_up
        self._seen: dict[int, tuple[bytes, float]] = {}

    def run(self) -> None:
        """Counts, and looks, eight times in the time-out."""
        beat = 0
        while True:
            beat += 1
            why = self._look(beat)
            if why and self._is_stuck(self._seconds / 2):
                self._give_up(why)
                return
            time.sleep(self._seconds / 8)

    def _look(self, beat: int) -> str:
        """Which process has stood still too long; '' for none."""
        now = time.monotonic()
        try:
            self._store.set(f"{_PREFIX}/{self._rank}", str(beat))
            for rank in range(self._size):
                key = f"{_PREFIX}/{rank}"
                if rank == self._rank or not self._store.check([key]):
                    continue
                found = bytes(self._store.get(key))
                before = self._seen.get(rank)
                if before is None or before[0] != found:
                    self._seen[rank] = (found, now)
                elif now - before[1] > self._seconds * 3 / 8:
                    return f"rank {rank} has not been heard of for {now - before[1]:.0f} s"
        except RuntimeError as error:  # the store went with the process that held it
            return f"the group's store does not answer: {str(error).splitlines()[0]}"
        return ""


class GroupWatches:
    """Which groups are watched, by name."""

    def __init__(self) -> None:
        self._begun: dict[str, weakref.ref[Any]] = {}

    def begin(self, name: str, group: Any, device: torch.device) -> None:
        """Watches a group from its first use on this device on; another one under the same name anew."""
        known = self._begun.get(name)
        if known is None or known() is not group:
            self._begun[name] = weakref.ref(group)
            _start(name, device)


GROUP_WATCHES = GroupWatches()
"""Those of this process."""


def _start(group: str, device: torch.device) -> GroupWatch | None:
    """Begins to watch the processes of a group that work together on the device; the time-out is that of its store. None for
    a group of one, or one whose store cannot be used by a thread of its own."""
    from torch.distributed import distributed_c10d  # only in a torch that has it

    found = find_group(group)
    store: Any = distributed_c10d._get_process_group_store(found)
    if found.size() < 2 or not hasattr(store, "clone"):
        return None
    try:
        own = store.clone()  # a wait of another thread holds a store's lock
    except RuntimeError:
        return None
    seconds = store.timeout.total_seconds()
    stuck = partial(_is_stuck, device)
    watch = GroupWatch(own, found.rank(), found.size(), seconds, stuck, _abort)
    watch.start()
    return watch


def _is_stuck(device: torch.device, seconds: float) -> bool:
    """Whether the device is still at work after so long."""
    if not torch.cuda.is_initialized():  # type: ignore[no-untyped-call]  # torch's own
        return False
    waiting = threading.Thread(target=torch.cuda.synchronize, args=(device,), daemon=True)
    waiting.start()
    waiting.join(seconds)
    return waiting.is_alive()


def _abort(why: str) -> None:
    text = f"[WIR935] {why}, and the device waits for it: this process ends\n"
    sys.stderr.write(text)
    sys.stderr.flush()
    os.abort()
