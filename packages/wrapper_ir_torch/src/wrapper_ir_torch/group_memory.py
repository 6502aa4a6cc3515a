"""Persistent memory of process groups: an allocation id maps to one tensor while its group lives, in all
calls.

Torch reuses the memory of an id after its previous tensor was freed. Keeping the tensor avoids this: the
processes `rendezvous` once, in the first operator that reads symmetric memory, and memory is registered with
a communicator once.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from wrapper_ir.errors import ExecutionError
from wrapper_ir_torch._compat import empty_symmetric
from wrapper_ir_torch.group_objects import GroupObjects

_Layout = tuple[tuple[int, ...], tuple[int, ...], torch.dtype]
Allocate = Callable[[Sequence[int], Sequence[int], torch.dtype, torch.device, str, int], Tensor]
"""Allocates a tensor of sizes and strides, dtype and device in memory of a group, under an id."""


class _Entry:
    """The memory of one id, and the tensors over it that programs have requested."""

    def __init__(self, memory: Tensor) -> None:
        self.memory = memory
        self.tensors: dict[_Layout, Tensor] = {}


class GroupMemory:
    """Tensors of one kind of memory by group, id and device."""

    def __init__(self, kind: str, allocate: Allocate) -> None:
        self._kind, self._allocate = kind, allocate
        self._entries: GroupObjects[tuple[int, torch.device], _Entry] = GroupObjects(self._ended)
        self._users: list[weakref.WeakMethod[Callable[[], None]]] = []

    def tensor(
        self,
        sizes: Sequence[int],
        strides: Sequence[int],
        dtype: torch.dtype,
        device: torch.device,
        group: str,
        id: int,
    ) -> Tensor:
        """Returns the tensor of this layout at the start of the id's memory, which the first request
        allocates. Raises ExecutionError WIR934 if the layout needs more bytes than that memory has, and the
        allocator's errors."""
        entries, key, layout = self._entries.of(group), (id, device), (tuple(sizes), tuple(strides), dtype)
        entry = entries.get(key)
        if entry is None:
            memory = self._allocate(sizes, strides, dtype, device, group, id)
            entry = entries[key] = _Entry(memory)
            entry.tensors[layout] = memory
        tensor = entry.tensors.get(layout)
        if tensor is None:
            tensor = entry.tensors[layout] = self._window(entry.memory, layout, id)
        return tensor

    def release(self, group: str) -> None:
        """Drops all memory of the group of this name. Programs that are called again allocate new memory."""
        self._entries.release(group)

    def tell(self, user: Callable[[], None]) -> None:
        """Registers a method that is called before memory of a group ends, while its object lives. An object
        that caches tensors drops them there."""
        self._users = [one for one in self._users if one() is not None]
        self._users.append(weakref.WeakMethod(user))

    def _ended(self) -> None:
        for one in self._users:
            user = one()
            if user is not None:
                user()

    def _window(self, memory: Tensor, layout: _Layout, id: int) -> Tensor:
        sizes, strides, dtype = layout
        need = dtype.itemsize * (1 + sum((n - 1) * s for n, s in zip(sizes, strides, strict=True)))
        available = memory.untyped_storage().nbytes() - memory.storage_offset() * memory.element_size()
        if 0 not in sizes and need > available:
            raise ExecutionError(
                "WIR934",
                f"{need} bytes of {self._kind} memory are requested under id {id}, which has {available}",
                hint="use other ids in each program, as the passes lower-collectives and register-buffers do",
            )
        start = memory.storage_offset() * memory.element_size() // dtype.itemsize
        return torch.empty(0, dtype=dtype, device=memory.device).set_(
            memory.untyped_storage(), start, sizes, strides
        )


SYMMETRIC_MEMORY = GroupMemory("symmetric", empty_symmetric)
"""The symmetric memory of this process."""
