"""Symmetric memory that persists: an allocation id has its tensor for as long as its group lives, and all calls use that one.

Torch gives the memory of an id out again once the tensor before it has died. Who keeps the tensor asks once, and the processes meet
(`rendezvous`) once, in the first operator that is given it.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from wrapper_ir.errors import ExecutionError
from wrapper_ir_torch._compat import empty_symmetric, find_group

__all__ = ["SYMMETRIC_MEMORY", "SymmetricMemory"]

_Key = tuple[str, int, torch.device]
_Layout = tuple[tuple[int, ...], tuple[int, ...], torch.dtype]


class _Held:
    """The memory of one id, and the tensors over it that programs have asked for."""

    def __init__(self, group: Any, memory: Tensor) -> None:
        self.group = weakref.ref(group)
        self.memory = memory
        self.tensors: dict[_Layout, Tensor] = {}


class SymmetricMemory:
    """Tensors of symmetric memory by group, id and device. A group that was destroyed has none left, also where another one has its
    name."""

    def __init__(self) -> None:
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
        ExecutionError WIR934 where it needs more bytes than that."""
        key, layout = (group, id, device), (tuple(sizes), tuple(strides), dtype)
        held, owner = self._held.get(key), find_group(group)
        if held is None or held.group() is not owner:
            made = empty_symmetric(sizes, strides, dtype, device, group, id)
            held = self._held[key] = _Held(owner, made)
            held.tensors[layout] = made
        found = held.tensors.get(layout)
        if found is None:
            found = held.tensors[layout] = _window(held.memory, layout, id)
        return found


def _window(memory: Tensor, layout: _Layout, id: int) -> Tensor:
    sizes, strides, dtype = layout
    need = dtype.itemsize * (1 + sum((n - 1) * s for n, s in zip(sizes, strides, strict=True)))
    room = memory.untyped_storage().nbytes() - memory.storage_offset() * memory.element_size()
    if 0 not in sizes and need > room:
        raise ExecutionError(
            "WIR934",
            f"{need} bytes of symmetric memory are asked for under id {id}, which has {room}",
            hint="give each program ids of its own, as the pass lower-collectives does",
        )
    start = memory.storage_offset() * memory.element_size() // dtype.itemsize
    return torch.empty(0, dtype=dtype, device=memory.device).set_(
        memory.untyped_storage(), start, sizes, strides
    )


SYMMETRIC_MEMORY = SymmetricMemory()
"""That of this process."""
