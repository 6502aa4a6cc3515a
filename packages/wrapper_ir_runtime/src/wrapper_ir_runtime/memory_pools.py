"""The memory pools of this process, by name and device."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any


class MemoryPools:
    """Pools by name and device. Like process groups they belong to the process: a program names a pool, and the process sets
    it before the first call, or the first use creates it."""

    def __init__(self) -> None:
        self._pools: dict[tuple[str, str], Any] = {}  # Any: the tensor library's own objects
        self._lock = threading.Lock()

    def set(self, name: str, device: str, pool: Any) -> None:  # Any: see above
        """Makes `pool` the one of this name: of torch, a `torch.cuda.MemPool`."""
        with self._lock:
            self._pools[name, device] = pool

    def get(self, name: str, device: str, make: Callable[[], Any]) -> Any:  # Any: see above
        """The pool of this name, made where there is none."""
        with self._lock:
            if (name, device) not in self._pools:
                self._pools[name, device] = make()
            return self._pools[name, device]


MEMORY_POOLS = MemoryPools()
"""The pools of this process."""


# Any: a module that this package does not know
def use_memory_pool(torch: Any, name: str, device: str) -> AbstractContextManager[None]:
    """Within, this thread's new memory of `device` comes from the pool of this name."""
    pool = MEMORY_POOLS.get(name, device, torch.cuda.MemPool)
    used: AbstractContextManager[None] = torch.cuda.use_mem_pool(pool, torch.device(device))
    return used
