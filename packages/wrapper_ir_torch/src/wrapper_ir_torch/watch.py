"""Ends a process whose device waits for another process that has ended.

Kernels over symmetric memory wait for each other on the device, without a time-out, and no watchdog of NCCL knows them. So each
process of a group that shares memory counts in the group's store while it lives, and looks at the others' counts. Where one stands
still for the group's time-out and the device does not come to rest for as long, this process cannot go on: it says so, and aborts,
as NCCL's watchdog does. A process whose device is at rest goes on: the other one may have ended in its own right.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from wrapper_ir_torch._compat import find_group

__all__ = ["GroupWatch", "watch_group"]

_PREFIX = "wrapper_ir/alive"


class GroupWatch(threading.Thread):
    """One thread a group. `seconds` is how long a count may stand still; `is_stuck` says after as long whether the device has not
    come to rest, `give_up` ends the process."""

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
        """Counts, and looks, four times in the seconds that a count may stand still."""
        beat = 0
        while True:
            beat += 1
            why = self._look(beat)
            if why and self._is_stuck(self._seconds):
                self._give_up(why)
                return
            time.sleep(self._seconds / 4)

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
                elif now - before[1] > self._seconds:
                    return f"rank {rank} has not been heard of for {now - before[1]:.0f} s"
        except RuntimeError as error:  # the store went with the process that held it
            return f"the group's store does not answer: {str(error).splitlines()[0]}"
        return ""


def watch_group(group: str, device: torch.device) -> GroupWatch | None:
    """Begins to watch the processes of a group that shares memory of the device; the time-out is that of its store. None for
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
