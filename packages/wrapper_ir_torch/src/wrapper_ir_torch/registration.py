"""User-buffer registration: memory registered with a group's NCCL communicator. Collectives read and write it
without copies to internal buffers of NCCL. The collectives are the same operators as over other memory.

A group has one memory pool per device, over its backend's allocator for registered memory (`ncclMemAlloc`).
Allocations in the pool are registered by segments of torch's caching allocator, until
`RegisteredMemory.release`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from wrapper_ir.errors import ExecutionError
from wrapper_ir_torch._compat import (
    allows_multicast,
    connect,
    empty_in_pool,
    find_group,
    group_backend,
    new_pool,
    pool_segments,
)
from wrapper_ir_torch.group_memory import GroupMemory
from wrapper_ir_torch.group_objects import GroupObjects

if TYPE_CHECKING:  # not in all builds of torch
    from torch._C._distributed_c10d import ProcessGroupNCCL


@dataclass(frozen=True, slots=True)
class RegistrationCounts:
    """Memory that is registered with a group's communicator on one device."""

    tensors: int
    """Allocations that programs have requested."""
    nbytes: int
    """Their bytes."""
    segments: int
    """Segments of torch's allocator, each registered once."""
    registered_nbytes: int
    """The bytes of the segments."""


class _Pool:
    """The pool of one group and device, and the total of requests from programs."""

    def __init__(self, pool: torch.cuda.MemPool) -> None:
        self.pool = pool
        self.tensors = self.nbytes = 0


class RegisteredMemory(GroupMemory):
    """Tensors in registered memory. Before a group is destroyed, all its processes call `release` together,
    since NCCL's deregistration is collective."""

    def __init__(self) -> None:
        super().__init__("registered", self._empty)
        self._pools: GroupObjects[torch.device, _Pool] = GroupObjects()

    def counts(self, group: str, device: torch.device) -> RegistrationCounts:
        """Returns the memory registered with the group of this name; zeros if the group was destroyed."""
        try:
            pool = self._pools.of(group).get(device)
        except RuntimeError:  # the group was destroyed
            pool = None
        if pool is None:
            return RegistrationCounts(0, 0, 0, 0)
        segments = pool_segments(pool.pool)
        return RegistrationCounts(pool.tensors, pool.nbytes, len(segments), sum(segments))

    def release(self, group: str) -> None:
        """Drops all memory of a group, and deregisters it if the group is alive."""
        super().release(group)
        for device, pool in self._pools.release(group).items():
            _backend(group, device).deregister_mem_pool(pool.pool)

    def _empty(
        self,
        sizes: Sequence[int],
        strides: Sequence[int],
        dtype: torch.dtype,
        device: torch.device,
        group: str,
        id: int,
    ) -> Tensor:
        """Allocates in the group's pool. Raises ExecutionError WIR938 if the group cannot register memory."""
        backend, pools = _backend(group, device), self._pools.of(group)
        pool = pools.get(device)
        if pool is None:
            connect(backend, device)
            pool = pools[device] = _Pool(new_pool(backend, device))
        tensor = empty_in_pool(pool.pool, sizes, strides, dtype, device)
        backend.register_mem_pool(pool.pool)  # skips registered segments
        pool.tensors += 1
        pool.nbytes += tensor.untyped_storage().nbytes()
        return tensor


def _backend(name: str, device: torch.device) -> ProcessGroupNCCL:
    """Returns the group's backend on the device. Raises ExecutionError WIR938 if it cannot register memory
    without multicast."""
    backend = group_backend(find_group(name), device)
    if backend is None:
        raise ExecutionError(
            "WIR938",
            f"group {name!r} has no backend on {device} that registers memory",
            hint="create the group with the backend nccl, or omit the pass register-buffers",
        )
    if allows_multicast():
        raise ExecutionError(
            "WIR938",
            f"memory is not registered with group {name!r}: NCCL could create a multicast object of it",
            hint="set NCCL_NVLS_ENABLE=0 in the environment before the group is created, or omit the pass "
            "register-buffers",
        )
    return backend


REGISTERED_MEMORY = RegisteredMemory()
"""The registered memory of this process."""
