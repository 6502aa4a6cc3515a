"""Operators that allocate memory of process groups, for C++ libraries and for graphs that are traced again.
Torch itself has only functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from wrapper_ir_torch.group_memory import SYMMETRIC_MEMORY, GroupMemory
from wrapper_ir_torch.registration import REGISTERED_MEMORY

_SYMMETRIC, _REGISTERED = "wrapper_ir::empty_symmetric", "wrapper_ir::empty_registered"
_SCHEMA = "(SymInt[] size, SymInt[] stride, ScalarType dtype, Device device, str group_name, int alloc_id) -> Tensor"
_ID_BITS = 64

# Any: torch leaves its registry of operators untyped
_library: Any = torch.library


def signed_id(id: int) -> int:
    """Converts an unsigned 64-bit allocation id to the signed number that the operator accepts."""
    half = 1 << (_ID_BITS - 1)
    return (id + half) % (2 * half) - half


def _allocate_in(memory: GroupMemory) -> Callable[..., Tensor]:
    """Returns the implementation of the operator for one kind of memory: an id has the same memory in each
    call."""

    def allocate(
        size: Sequence[int],
        stride: Sequence[int],
        dtype: torch.dtype,
        device: torch.device,
        group_name: str,
        alloc_id: int,
    ) -> Tensor:
        return memory.tensor(size, stride, dtype, device, group_name, alloc_id % (1 << _ID_BITS))

    return allocate


def _fake(
    size: Sequence[int],
    stride: Sequence[int],
    dtype: torch.dtype,
    device: torch.device,
    group_name: str,
    alloc_id: int,
) -> Tensor:
    return torch.empty_strided(size, stride, dtype=dtype, device=device)


for _name, _memory in ((_SYMMETRIC, SYMMETRIC_MEMORY), (_REGISTERED, REGISTERED_MEMORY)):
    _library.define(_name, _SCHEMA)
    _library.impl(_name, "CompositeExplicitAutograd", _allocate_in(_memory))
    _library.register_fake(_name, _fake)
EMPTY_REGISTERED: Callable[..., Tensor] = torch.ops.wrapper_ir.empty_registered.default
EMPTY_SYMMETRIC: Callable[..., Tensor] = torch.ops.wrapper_ir.empty_symmetric.default
