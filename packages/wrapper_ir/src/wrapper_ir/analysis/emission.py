"""Questions of emitters whose target has tensors but no separate storages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from wrapper_ir.expr import Expr, Int
from wrapper_ir.layout import exact_quotient, extent_bytes
from wrapper_ir.ops import (
    AllocStorage,
    AssertLayout,
    Drop,
    EnterMemoryPool,
    EnterProfile,
    ExitScope,
    Free,
    Op,
    Unpack,
    View,
)
from wrapper_ir.ops.check import asserted_layouts
from wrapper_ir.program import Function
from wrapper_ir.structure import operands
from wrapper_ir.types import CPU, DType, MemoryKind, StorageType, TensorType
from wrapper_ir.values import Value

__all__ = [
    "NO_SYMMETRIC",
    "checked_next",
    "element_type",
    "is_symmetric",
    "is_whole",
    "lacks_symmetric",
    "made_elsewhere",
]

_NEAR = 20
"""Ops after a definition among which its check is looked for."""
NO_SYMMETRIC = (
    "WIR913",
    "the CPU has no symmetric memory, which processes on GPUs share",
    "allocate in the default memory space",
)
"""Code, message and hint for what `lacks_symmetric`."""


def is_symmetric(storage: StorageType) -> bool:
    """Whether a storage is in memory that the processes of a group share."""
    return storage.space.kind is MemoryKind.SYMMETRIC


def lacks_symmetric(storage: StorageType) -> bool:
    """Whether a storage asks for symmetric memory on a device that has none."""
    return is_symmetric(storage) and storage.device.type == CPU.type


def is_whole(view: View, storage: StorageType) -> bool:
    """Whether a view is all of a storage, so that one tensor can stand for both."""
    type = view.result.type
    return view.offset == Int(0) and type.device == storage.device and extent_bytes(type) == storage.nbytes


def made_elsewhere(function: Function) -> frozenset[Value]:
    """Storages whose first use is not in the scopes that they are made in: their memory is of the pools around the op that
    makes them."""
    if not any(isinstance(op, EnterMemoryPool) for op in function.body):
        return frozenset()
    scopes, homes, found = list[int](), dict[Value, tuple[int, ...]](), set[Value]()
    for position, op in enumerate(function.body):
        if isinstance(op, EnterMemoryPool | EnterProfile):
            scopes.append(position)
        elif isinstance(op, ExitScope):
            scopes.pop()
        elif isinstance(op, AllocStorage):
            homes[op.result] = tuple(scopes)
        else:
            here = tuple(scopes)
            found.update(v for v in operands(op) if homes.pop(v, here) != here)
    return frozenset(found)


def element_type(storage: StorageType, views: Iterable[tuple[View, Expr]]) -> DType:
    """The element type for a flat tensor in the place of a storage: its views' where they agree and it divides the
    storage's bytes and all offsets (with the views, from the storage's start), else bytes."""
    offsets, dtypes = [], set()
    for view, offset in views:
        dtypes.add(view.result.type.dtype)
        offsets.append(offset)
    if len(dtypes) != 1:
        return DType.U8
    dtype = dtypes.pop()
    parts = [storage.nbytes, *offsets]
    return dtype if all(exact_quotient(e, dtype.itemsize) is not None for e in parts) else DType.U8


def checked_next(body: Sequence[Op], position: int, value: Value) -> bool:
    """Whether the ops after `position` check the layout that `value` is declared with, before anything uses it."""
    for op in body[position + 1 : position + _NEAR]:
        if isinstance(op, AssertLayout) and value in op.tensors:
            type = value.type
            return isinstance(type, TensorType) and (value, type.sizes, type.strides) in asserted_layouts(op)
        if not isinstance(op, AssertLayout | Unpack | Drop | Free):
            return False
    return False
