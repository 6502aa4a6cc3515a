"""Memory of process groups that persists: an allocation id has its tensor for as long as its group lives, and all calls use that one.

Torch gives the memory of an id out again once the tensor before it has died. Who keeps the tensor asks once: the processes meet
(`rendezvous`) once, in the first operator that is given symmetric memory, and memory is registered with a communicator once.
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
"""Makes a tensor of sizes and strides, dtype and device in memory of a group, under an id."""


class _Held:
    """The memory of one id, and the tensors over it that programs have asked for."""

    def __init__(self, memory: Tensor) -> None:
        self.memory = memory
        self.tensors: dict[_Layout, Tensor] = {}


class GroupMemory:
    """Tensors of one kind of memory by group, id and device."""

    def __init__(self, kind: str, allocate: Allocate) -> None:
        self._kind, self._allocate = kind, allocate
        self._held: GroupObjects[tuple[int, torch.device], _Held] = GroupObjects(self._ended)
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
        """The tensor of this layout at the begin of the id's memory, which is allocated when it is first asked for; raises
        ExecutionError WIR934 where it needs more bytes than that, and what the allocator raises."""
        own, key, layout = self._held.of(group), (id, device), (tuple(sizes), tuple(strides), dtype)
        held = own.get(key)
        if held is None:
            made = self._allocate(sizes, strides, dtype, device, group, id)
            held = own[key] = _Held(made)
            held.tensors[layout] = made
        found = held.tensors.get(layout)
        if found is None:
            found = held.tensors[layout] = self._window(held.memory, layout, id)
        return found

    def release(self, group: str) -> None:
        """Lets go of all memory of the group of this name: programs that are called again allocate new memory."""
        self._held.release(group)

    def tell(self, user: Callable[[], None]) -> None:
        """Calls a method whenever memory of a group is to end, as long as its object lives: whoever keeps tensors lets go of them there."""
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


SYMMETRIC_MEMORY = GroupMemory("symmetric", empty_symmetric)
"""The symmetric memory of this process."""
