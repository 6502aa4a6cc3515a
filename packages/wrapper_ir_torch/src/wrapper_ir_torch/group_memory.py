"""Memory of process groups that persists: an allocation id has its tensor for as long as its group lives, and all calls use that one.

Torch gives the memory of an id out again once the tensor before it has died. Who keeps the tensor asks once: the processes meet
(`rendezvous`) once, in the first operator that is given symmetric memory, and memory is registered with a communicator once.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from wrapper_ir.errors import ExecutionError
from wrapper_ir_torch._compat import empty_symmetric, find_group
from wrapper_ir_torch.registration import REGISTRATIONS

__all__ = ["REGISTERED_MEMORY", "SYMMETRIC_MEMORY", "GroupMemory"]

_Key = tuple[str, int, torch.device]
_Layout = tuple[tuple[int, ...], tuple[int, ...], torch.dtype]
_Allocate = Callable[[Sequence[int], Sequence[int], torch.dtype, torch.device, str, int], Tensor]


class _Held:
    """The memory of one id, and the tensors over it that programs have asked for."""

    def __init__(self, group: Any, memory: Tensor) -> None:
        self.group = weakref.ref(group)
        self.memory = memory
        self.tensors: dict[_Layout, Tensor] = {}


class GroupMemory:
    """Tensors of one kind of memory by group, id and device. A group that was destroyed has none left, also where another one has its
    name."""

    def __init__(self, kind: str, allocate: _Allocate) -> None:
        self._kind, self._allocate = kind, allocate
        self._held: dict[_Key, _Held] = {}

    def tensor(
        self,
        sizes: Sequence[int],
        strides: Sequence[int],
        dtype: torch.dtype,
        device: torch.device,
        group: str,
        id: int,
    ) -> Tensor:
        """The tensor of this layout at the begin of the id's memory, which is allocated when it is first asked for; raises
        ExecutionError WIR934 where it needs more bytes than that, and what the allocator raises."""
        key, layout = (group, id, device), (tuple(sizes), tuple(strides), dtype)
        held, owner = self._held.get(key), find_group(group)
        if held is None or held.group() is not owner:
            made = self._allocate(sizes, strides, dtype, device, group, id)
            held = self._held[key] = _Held(owner, made)
            held.tensors[layout] = made
            weakref.finalize(owner, self._forget, key, held)
        found = held.tensors.get(layout)
        if found is None:
            found = held.tensors[layout] = self._window(held.memory, layout, id)
        return found

    def release(self, group: str) -> None:
        """Lets go of all memory of the group of this name: programs that are called again allocate new memory."""
        for key in [key for key in self._held if key[0] == group]:
            del self._held[key]

    def _forget(self, key: _Key, held: _Held) -> None:
        """When a group has ended; another one may have its name."""
        if self._held.get(key) is held:
            del self._held[key]

    def _window(self, memory: Tensor, layout: _Layout, id: int) -> Tensor:
        sizes, strides, dtype = layout
        need = dtype.itemsize * (1 + sum((n - 1) * s for n, s in zip(sizes, strides, strict=True)))
        room = memory.untyped_storage().nbytes() - memory.storage_offset() * memory.element_size()
        if 0 not in sizes and need > room:
            raise ExecutionError(
                "WIR934",
                f"{need} bytes of {self._kind} memory are asked for under id {id}, which has {room}",
                hint="give each program ids of its own, as the passes lower-collectives and register-buffers do",
            )
        start = memory.storage_offset() * memory.element_size() // dtype.itemsize
        return torch.empty(0, dtype=dtype, device=memory.device).set_(
            memory.untyped_storage(), start, sizes, strides
        )


def _empty_registered(
    sizes: Sequence[int],
    strides: Sequence[int],
    dtype: torch.dtype,
    device: torch.device,
    group: str,
    id: int,
) -> Tensor:
    """New memory of the group's pool."""
    return REGISTRATIONS.empty(sizes, strides, dtype, device, group)


SYMMETRIC_MEMORY = GroupMemory("symmetric", empty_symmetric)
"""The symmetric memory of this process."""
REGISTERED_MEMORY = GroupMemory("registered", _empty_registered)
"""The memory of this process that is registered with groups' communicators."""
