"""User-buffer registration: memory that a group's NCCL communicator knows, which collectives read and write without copies to and from
buffers of the library's own. The collectives are the same operators as over other memory.

A group has one memory pool a device, over the allocator that its backend has for that (`ncclMemAlloc`). What is allocated in it is
registered as it is allocated, by segments of torch's caching allocator, until `RegisteredMemory.release`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

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


@dataclass(frozen=True, slots=True)
class RegistrationCounts:
    """What is registered with a group's communicator on one device."""

    tensors: int
    """Allocations that programs have asked for."""
    nbytes: int
    """Their bytes."""
    segments: int
    """Pieces of memory of torch's allocator, each registered once."""
    registered_nbytes: int
    """The bytes of those."""


class _Pool:
    """The pool of one group and device, and what programs have asked for."""

    def __init__(self, pool: Any) -> None:  # Any: torch's own class, not in all builds
        self.pool = pool
        self.tensors = self.nbytes = 0


class RegisteredMemory(GroupMemory):
    """Tensors in registered memory. Before a group is destroyed, all its processes release theirs, since NCCL takes registrations back with
    the help of the others."""

    def __init__(self) -> None:
        super().__init__("registered", self._empty)
        self._pools: GroupObjects[torch.device, _Pool] = GroupObjects()

    def counts(self, group: str, device: torch.device) -> RegistrationCounts:
        """What is registered with the group of this name; nothing once it was destroyed."""
        try:
            known = self._pools.of(group).get(device)
        except RuntimeError:  # no group has this name any more
            known = None
        if known is None:
            return RegistrationCounts(0, 0, 0, 0)
        segments = pool_segments(known.pool)
        return RegistrationCounts(known.tensors, known.nbytes, len(segments), sum(segments))

    def release(self, group: str) -> None:
        """Lets go of all memory of a group, and takes its registration back, if the group lives."""
        super().release(group)
        for device, known in self._pools.release(group).items():
            _backend(group, device).deregister_mem_pool(known.pool)

    def _empty(
        self,
        sizes: Sequence[int],
        strides: Sequence[int],
        dtype: torch.dtype,
        device: torch.device,
        group: str,
        id: int,
    ) -> Tensor:
        """New memory of the group's pool. Raises ExecutionError WIR938 where the group cannot register any."""
        backend, pools = _backend(group, device), self._pools.of(group)
        known = pools.get(device)
        if known is None:
            connect(backend, device)
            known = pools[device] = _Pool(new_pool(backend, device))
        made = empty_in_pool(known.pool, sizes, strides, dtype, device)
        backend.register_mem_pool(known.pool)  # segments that are registered already are left alone
        known.tensors += 1
        known.nbytes += made.untyped_storage().nbytes()
        return made


def _backend(name: str, device: torch.device) -> Any:  # Any: see _Pool
    """The group's backend on the device, where it can register memory without multicast; else raises ExecutionError WIR938."""
    backend = group_backend(find_group(name), device)
    if backend is None:
        raise ExecutionError(
            "WIR938",
            f"group {name!r} has no backend on {device} that registers memory",
            hint="make the group with the backend nccl, or leave the pass register-buffers out",
        )
    if allows_multicast():
        raise ExecutionError(
            "WIR938",
            f"memory is not registered with group {name!r}: NCCL could make a multicast object of it",
            hint="set NCCL_NVLS_ENABLE=0 in the environment before the group is made, or leave the pass register-buffers out",
        )
    return backend


REGISTERED_MEMORY = RegisteredMemory()
"""The memory of this process that is registered with groups' communicators."""
