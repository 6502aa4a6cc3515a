"""Ops that make, end, fill and view storage."""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch import fx

from fx_converter import targets
from fx_converter._compat import FAST_EMPTY, FAST_VIEW
from fx_converter.graph.placement import on_stream
from fx_converter.graph.scope import FunctionScope
from fx_converter.native import DTYPES, torch_device
from fx_converter.targets.symmetric import EMPTY_SYMMETRIC, signed
from wrapper_ir.analysis.emission import (
    NO_SYMMETRIC,
    element_type,
    is_symmetric,
    is_whole,
    lacks_symmetric,
)
from wrapper_ir.expr import Expr, Int
from wrapper_ir.layout import exact_quotient
from wrapper_ir.ops import (
    AllocStorage,
    Copy,
    Drop,
    EnsureAligned,
    Free,
    ResizeStorage,
    SetStorage,
    Slot,
    View,
    ZeroMode,
)
from wrapper_ir.types import CPU, DType, MemoryKind, StorageType, TensorType
from wrapper_ir.values import Value

__all__ = ["alloc", "copy", "drop", "ensure_aligned", "free", "resize_storage", "set_storage", "slot", "view"]

_aten = torch.ops.aten
_ZERO = Int(0)
_ONE = Int(1)


def alloc(op: AllocStorage, scope: FunctionScope) -> None:
    """A storage with one view of all of it becomes a tensor of that type; any other one a flat tensor."""
    type = _storage_type(op.result)
    views, lent = scope.slots.views.get(op.result, ()), op.result in scope.slots.lent
    sole = views[0][0] if len(views) == 1 and not lent else None
    whole = sole is not None and sole.source == op.result and is_whole(sole, type)
    if whole and op.result not in scope.made_elsewhere:
        scope.pending[op.result] = op
        return
    dtype = DType.U8 if lent else element_type(type, views)  # callees take bytes
    scope.base_dtypes[op.result] = dtype
    count = exact_quotient(type.nbytes, dtype.itemsize)
    assert count is not None
    flat = TensorType(dtype=dtype, sizes=(count,), strides=(_ONE,), device=type.device)
    _empty(op, op.result, flat, scope)


def slot(op: Slot, scope: FunctionScope) -> None:
    """No node: its views are made of the pool's tensor. Only what a callee takes is a tensor of its own."""
    if op.result not in scope.slots.lent:
        return
    base, start = scope.slots.places[op.result]
    nbytes = _storage_type(op.result).nbytes
    type = TensorType(dtype=DType.U8, sizes=(nbytes,), strides=(_ONE,), device=op.result.type.device)
    _window(op.result, scope.value(base), type, start, scope)


def _storage_type(value: Value) -> StorageType:
    assert isinstance(value.type, StorageType)
    return value.type


def _tensor_type(value: Value) -> TensorType:
    assert isinstance(value.type, TensorType)
    return value.type


def _empty(op: AllocStorage, result: Value, type: TensorType, scope: FunctionScope) -> None:
    """The node that allocates, named after `result`; zeroing is a node of its own."""
    storage = _storage_type(op.result)
    if lacks_symmetric(storage):
        raise scope.not_supported(*NO_SYMMETRIC)
    sizes, strides = scope.numbers(type.sizes), scope.numbers(type.strides)
    pinned = storage.space.kind is MemoryKind.PINNED
    val = scope.program.fakes.tensor(type)
    with on_stream(op, scope):
        fast = _fast_empty(type, pinned, scope)
        if is_symmetric(storage):
            where = torch_device(type.device), storage.space.group, signed(storage.space.alloc_id)
            args = list(sizes), list(strides), DTYPES[type.dtype], *where
            made = scope.bind(result, EMPTY_SYMMETRIC, *args, val=val)
        elif fast is not None:
            made = scope.bind(result, fast, sizes, strides, DTYPES[type.dtype], val=val)
        else:
            made = scope.bind(
                result,
                _aten.empty_strided.default,
                list(sizes),
                list(strides),
                dtype=DTYPES[type.dtype],
                device=torch_device(type.device),
                pin_memory=pinned and torch.cuda.is_available(),
                val=val,
            )
        if op.zero is not ZeroMode.NONE:
            scope.call(_aten.zero_.default, made, val=val)


def _fast_empty(type: TensorType, pinned: bool, scope: FunctionScope) -> Any:  # Any: torch's own function
    """A callable for this device that takes only a layout; None where there is none."""
    if not scope.program.direct or pinned:
        return None
    if type.device == CPU or type.device == scope.program.program.target.device:
        return FAST_EMPTY.get(type.device.type)
    return None


def view(op: View, scope: FunctionScope) -> None:
    """A window; `reuse` is one as well, and the last use of its source."""
    type = _tensor_type(op.result)
    pending = scope.pending.pop(op.source, None)
    if pending is not None:
        _empty(pending, op.result, type, scope)
        scope.nodes[op.source] = scope.nodes[op.result]
        return
    base, at = scope.slots.place(op.source, op.offset)
    source = scope.value(base)
    dtype = scope.base_dtypes.get(base, DType.U8)  # a storage parameter is a tensor of bytes
    if isinstance(op.source.type, TensorType):
        dtype = op.source.type.dtype
        if op.offset == _ZERO and op.source.type == type:
            scope.bind(op.result, targets.same, source, val=source.meta["val"])
            return
    offset = exact_quotient(at, dtype.itemsize)
    if dtype is not type.dtype or offset is None:
        _window_bytes(op.result, source, type, at, scope)
    else:
        _window(op.result, source, type, offset, scope)


def _window_bytes(result: Value, source: fx.Node, type: TensorType, at: Expr, scope: FunctionScope) -> None:
    """A window of another element type."""
    val = scope.program.fakes.view(source.meta["val"], type, None)
    sizes, strides = scope.numbers(type.sizes), scope.numbers(type.strides)
    offset = scope.number(at)
    scope.bind(
        result, targets.window, source, DTYPES[type.dtype], list(sizes), list(strides), offset, val=val
    )


def _window(result: Value, source: fx.Node, type: TensorType, offset: Expr, scope: FunctionScope) -> None:
    """A window at `offset` elements from the source's first one. The operator counts from the storage's."""
    sizes, strides = scope.numbers(type.sizes), scope.numbers(type.strides)
    at = scope.number(offset)
    val = scope.program.fakes.view(source.meta["val"], type, at if isinstance(at, int) else None)
    if scope.program.direct:
        scope.bind(result, FAST_VIEW, source, sizes, strides, at, val=val)
        return
    start = _start(source, at, scope)
    made = scope.bind(result, _aten.as_strided.default, source, list(sizes), list(strides), start, val=val)
    if not isinstance(start, fx.Node):
        scope.starts[made] = start


def _start(source: fx.Node, at: Any, scope: FunctionScope) -> Any:  # Any: numbers, and nodes of numbers
    """`at` elements behind the source's first one, from the start of the storage."""
    known: int | fx.Node | None = scope.starts.get(source)
    if known is None and source.target is _aten.empty_strided.default and source not in scope.reset:
        known = 0
    if known is None:
        known = scope.call(
            _aten.sym_storage_offset.default, source, val=scope.program.fakes.offset(source.meta["val"])
        )
    if not isinstance(known, fx.Node) and (known == 0 or not isinstance(at, fx.Node)):
        return known + at if known else at
    return known if at == 0 else scope.apply(operator.add, known, at)


def free(op: Free, scope: FunctionScope) -> None:
    """The last use of the storage's nodes."""
    if op.storage in scope.slots.places:
        return  # the memory is its pool's
    scope.pending.pop(op.storage, None)
    node = scope.nodes.get(op.storage)
    if node is not None:
        scope.call(targets.free, node)


def drop(op: Drop, scope: FunctionScope) -> None:
    """Nothing to do: a name ends with its last use."""


def copy(op: Copy, scope: FunctionScope) -> None:
    """`copy_` broadcasts and converts as the op does."""
    dst, src = scope.value(op.dst), scope.value(op.src)
    with on_stream(op, scope):
        scope.call(_aten.copy_.default, dst, src, op.non_blocking, val=dst.meta["val"])


def ensure_aligned(op: EnsureAligned, scope: FunctionScope) -> None:
    """Only known when the tensor is there."""
    scope.bind(op.result, targets.align, scope.value(op.source), op.alignment, val=scope.fake(op.result))


def resize_storage(op: ResizeStorage, scope: FunctionScope) -> None:
    """Resizes the storage in place."""
    scope.call(targets.resize_storage, scope.value(op.target), scope.number(op.nbytes))


def set_storage(op: SetStorage, scope: FunctionScope) -> None:
    """Makes the target a view of the source, for every holder."""
    target, source = scope.value(op.target), scope.value(op.source)
    scope.starts.pop(target, None)
    scope.reset.add(target)
    scope.call(_aten.set_.source_Tensor, target, source, val=target.meta["val"])
