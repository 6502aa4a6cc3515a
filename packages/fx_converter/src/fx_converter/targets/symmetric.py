"""Symmetric memory: an operator of ours, so that a graph that is traced again keeps the call. Torch has only a function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from wrapper_ir_torch import SYMMETRIC_MEMORY

__all__ = ["EMPTY_SYMMETRIC", "signed"]

_NAME = "wrapper_ir::empty_symmetric"
_SCHEMA = "(SymInt[] size, SymInt[] stride, ScalarType dtype, Device device, str group_name, int alloc_id) -> Tensor"
_ID_BITS = 64

# Any in this file: torch leaves its registry of operators untyped
_library: Any = torch.library
_library.define(_NAME, _SCHEMA)


def signed(id: int) -> int:
    """An allocation id, of which torch takes 64 bits, as the operator takes it."""
    half = 1 << (_ID_BITS - 1)
    return (id + half) % (2 * half) - half


def _allocate(
    size: Sequence[int],
    stride: Sequence[int],
    dtype: torch.dtype,
    device: torch.device,
    group_name: str,
    alloc_id: int,
) -> Tensor:
    """A tensor in memory that the processes of a group share; an id has the same memory in each call."""
    return SYMMETRIC_MEMORY.tensor(size, stride, dtype, device, group_name, alloc_id % (1 << _ID_BITS))


def _fake(
    size: Sequence[int],
    stride: Sequence[int],
    dtype: torch.dtype,
    device: torch.device,
    group_name: str,
    alloc_id: int,
) -> Tensor:
    return torch.empty_strided(size, stride, dtype=dtype, device=device)


_library.impl(_NAME, "CompositeExplicitAutograd", _allocate)
_library.register_fake(_NAME, _fake)
EMPTY_SYMMETRIC: Callable[..., Tensor] = torch.ops.wrapper_ir.empty_symmetric.default
