"""User-buffer registration: memory that a group's NCCL communicator knows, which collectives read and write without copies to and from
buffers of the library's own. The collectives are the same operators as over other memory.

A group has one memory pool a device, over the allocator that its backend has for that (`ncclMemAlloc`). What is allocated in it is
registered as it is allocated, by segments of torch's caching allocator, until `Registrations.release`.
"""

from __future__ import annotations

import weakref
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

__all__ = ["REGISTRATIONS", "RegistrationCounts", "Registrations"]


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
    """The pool of one group and device, which does not keep the group alive."""

    def __init__(self, group: Any, pool: Any) -> None:  # Any: torch's own classes, not in all builds
        self.group, self.pool = weakref.ref(group), pool
        self.tensors = self.nbytes = 0


class Registrations:
    """Pools by the name of the group and device. A group that ends has none left; before it is destroyed, all its processes release
    theirs, since NCCL takes registrations back with the help of the others."""

    def __init__(self) -> None:
        self._pools: dict[tuple[str, torch.device], _Pool] = {}

    def empty(
        self,
        sizes: Sequence[int],
        strides: Sequence[int],
        dtype: torch.dtype,
        device: torch.device,
        group: str,
    ) -> Tensor:
        """A tensor in registered memory. Raises ExecutionError WIR938 where the group cannot register any."""
        owner = find_group(group)
        backend = _backend(owner, group, device)
        known = self._pool(owner, backend, (group, device))
        made = empty_in_pool(known.pool, sizes, strides, dtype, device)
        backend.register_mem_pool(known.pool)  # segments that are registered already are left alone
        known.tensors += 1
        known.nbytes += made.untyped_storage().nbytes()
        return made

    def counts(self, group: str, device: torch.device) -> RegistrationCounts:
        """What is registered with the group of this name; nothing once it was destroyed, also while something keeps its object."""
        known = self._pools.get((group, device))
        if known is not None and not _is_alive(group, known.group()):
            self._forget((group, device), known)
            known = None
        if known is None:
            return RegistrationCounts(0, 0, 0, 0)
        segments = pool_segments(known.pool)
        return RegistrationCounts(known.tensors, known.nbytes, len(segments), sum(segments))

    def release(self, group: str) -> None:
        """Takes the registration of a living group back, and lets go of its pools."""
        for key in [key for key in self._pools if key[0] == group]:
            known = self._pools.pop(key)
            owner = known.group()
            if owner is not None:
                _backend(owner, *key).deregister_mem_pool(known.pool)

    def _pool(self, owner: Any, backend: Any, key: tuple[str, torch.device]) -> _Pool:
        known = self._pools.get(key)
        if known is None or known.group() is not owner:
            connect(backend, key[1])
            known = self._pools[key] = _Pool(owner, new_pool(backend, key[1]))
            weakref.finalize(owner, self._forget, key, known)
        return known

    def _forget(self, key: tuple[str, torch.device], pool: _Pool) -> None:
        """When a group has ended; another one may have its name."""
        if self._pools.get(key) is pool:
            del self._pools[key]


def _is_alive(name: str, group: object) -> bool:
    try:
        return group is not None and find_group(name) is group
    except RuntimeError:  # no group has this name any more
        return False


def _backend(owner: Any, name: str, device: torch.device) -> Any:  # Any: see _Pool
    """The group's backend on the device, where it can register memory without multicast; else raises ExecutionError WIR938."""
    backend = group_backend(owner, device)
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


REGISTRATIONS = Registrations()
"""Those of this process."""
