"""The memory pools of this process, by name and device."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager

from wrapper_ir_runtime.torch_types import TorchModule


class MemoryPools:
    """Pools by name and device.

    They belong to the process, as process groups do: a program refers to a pool by name. The process sets it
    before the first call; otherwise the first use creates it.
    """

    def __init__(self) -> None:
        self._pools: dict[tuple[str, str], object] = {}
        self._lock = threading.Lock()

    def set(self, name: str, device: str, pool: object) -> None:
        """Sets the pool of this name; for torch, a `torch.cuda.MemPool`."""
        with self._lock:
            self._pools[name, device] = pool

    def get(self, name: str, device: str, make: Callable[[], object]) -> object:
        """Returns the pool of this name; creates it if none exists."""
        with self._lock:
            if (name, device) not in self._pools:
                self._pools[name, device] = make()
            return self._pools[name, device]


MEMORY_POOLS = MemoryPools()
"""The pools of this process."""


def use_memory_pool(torch: TorchModule, name: str, device: str) -> AbstractContextManager[None]:
    """Returns a context in which this thread allocates memory of `device` from the pool of this name."""
    pool = MEMORY_POOLS.get(name, device, torch.cuda.MemPool)
    context: AbstractContextManager[None] = torch.cuda.use_mem_pool(pool, torch.device(device))
    return context
