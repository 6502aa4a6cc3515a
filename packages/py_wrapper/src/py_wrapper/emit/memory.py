"""Writes ops that make, end, fill and view storage."""

from __future__ import annotations

from collections.abc import Sequence

from py_wrapper.emit.helpers import Helper
from py_wrapper.emit.module import ModuleScope
from py_wrapper.emit.scope import FunctionScope
from py_wrapper.emit.streams import on_stream
from py_wrapper.emit.writer import tuple_text
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
    ViewMode,
    ZeroMode,
)
from wrapper_ir.quoting import python_string
from wrapper_ir.types import CPU, DType, MemoryKind, StorageType, TensorType
from wrapper_ir.values import Value

__all__ = [
    "alloc",
    "constant_view",
    "copy",
    "drop",
    "ensure_aligned",
    "free",
    "resize_storage",
    "set_storage",
    "slot",
    "view",
]

_ZERO = Int(0)
_ONE = Int(1)


def alloc(op: AllocStorage, scope: FunctionScope) -> None:
    """A storage with one view of all of it becomes a tensor of that type; any other one a flat tensor. What is kept is
    there already."""
    if op.result in scope.kept:
        if op.zero is ZeroMode.CALL:
            scope.out.line(f"{scope.name(op.result)}.zero_()")
        return
    type = _storage_type(op.result)
    sole = scope.sole_view(op.result)
    if sole is not None and is_whole(sole, type) and op.result not in scope.made_elsewhere:
        scope.pending[op.result] = op
        return
    lent = op.result in scope.slots.lent  # callees take bytes
    dtype = DType.U8 if lent else element_type(type, scope.slots.views.get(op.result, ()))
    scope.base_dtypes[op.result] = dtype
    count = exact_quotient(type.nbytes, dtype.itemsize)
    assert count is not None
    text = _empty((count,), (_ONE,), dtype, type, scope)
    with on_stream(op, scope):
        scope.out.line(f"{scope.bind(op.result)} = {_filled(text, op, scope)}")


def slot(op: Slot, scope: FunctionScope) -> None:
    """Nothing: its views are made of the pool's tensor. Only what a callee takes is a tensor of its own."""
    if op.result in scope.slots.lent:
        scope.out.line(f"{scope.bind(op.result)} = {_bytes_of(op.result, scope)}")
    _poison_slot(op.result, scope)


def _bytes_of(slot: Value, scope: FunctionScope) -> str:
    base, start = scope.slots.places[slot]
    nbytes, name = _storage_type(slot).nbytes, scope.name(base)
    if scope.base_dtypes.get(base, DType.U8) is DType.U8:
        return f"{name}[{scope.expr(start)}:{scope.expr(start + nbytes)}]"
    layout = f"{scope.shape((nbytes,))}, (1,), {scope.expr(start)}"
    return f"{scope.module.helper(Helper.WINDOW)}({name}, torch.uint8, {layout})"


def _poison_slot(slot: Value, scope: FunctionScope) -> None:
    """A slot's bytes hold nothing before and after it; those of other slots beside it do."""
    if scope.module.options.poison is not None:
        scope.out.line(f"{_bytes_of(slot, scope)}.fill_({scope.module.options.poison})")


def _storage_type(value: Value) -> StorageType:
    assert isinstance(value.type, StorageType)
    return value.type


def _tensor_type(value: Value) -> TensorType:
    assert isinstance(value.type, TensorType)
    return value.type


def _empty(
    sizes: Sequence[Expr], strides: Sequence[Expr], dtype: DType, type: StorageType, scope: FunctionScope
) -> str:
    args = f"{scope.shape(sizes)}, {scope.shape(strides)}"
    torch_dtype = f"torch.{dtype.torch_name}"
    if lacks_symmetric(type):
        raise scope.not_supported(*NO_SYMMETRIC)
    if is_symmetric(type):
        where = f"torch.device({python_string(str(type.device))}), {python_string(type.space.group)}, {type.space.alloc_id}"
        return f"{scope.module.helper(Helper.EMPTY_SYMMETRIC)}({args}, {torch_dtype}, {where})"
    if type.device.type == "cuda" and type.device == scope.module.program.target.device:
        return f"{scope.module.helper(Helper.EMPTY_CUDA)}({args}, {torch_dtype})"
    if type.device != CPU:
        return f"torch.empty_strided({args}, dtype={torch_dtype}, device={python_string(str(type.device))})"
    helper = Helper.EMPTY_PINNED if type.space.kind is MemoryKind.PINNED else Helper.EMPTY
    return f"{scope.module.helper(helper)}({args}, {torch_dtype})"


def _filled(text: str, op: AllocStorage, scope: FunctionScope) -> str:
    if op.zero is not ZeroMode.NONE:
        return f"{text}.zero_()"
    if scope.module.options.poison is not None:
        return f"{scope.module.helper(Helper.POISON)}({text})"
    return text


def view(op: View, scope: FunctionScope) -> None:
    """A window; with `reuse`, the variables of the storage's other tensors end."""
    if op.result in scope.kept:
        if op.mode is not ViewMode.ALIAS:
            scope.forget(scope.storage_members(op.source))
        return
    if scope.module.global_name(scope.function, op.result):
        return
    type = _tensor_type(op.result)
    pending = scope.pending.pop(op.source, None)
    if pending is not None:
        text = _empty(type.sizes, type.strides, type.dtype, _storage_type(op.source), scope)
        with on_stream(pending, scope):
            scope.out.line(f"{scope.bind(op.result)} = {_filled(text, pending, scope)}")
        return
    text = _window(op, type, scope)
    if op.mode is ViewMode.ALIAS:
        scope.out.line(f"{scope.bind(op.result)} = {text}")
        return
    ended = [m for m in scope.storage_members(op.source) if isinstance(m.type, TensorType)]
    head = f"{scope.bind(op.result)} = {text}"
    names = scope.unbind(ended)
    scope.out.line(f"{head}; del {', '.join(names)}  # reuse" if names else f"{head}  # reuse")


def _window(op: View, type: TensorType, scope: FunctionScope) -> str:
    source, at = scope.slots.place(op.source, op.offset)
    name = scope.name(source)
    if isinstance(source.type, TensorType):
        dtype = source.type.dtype
        if op.offset == _ZERO and source.type == type:
            return name
    else:
        dtype = scope.base_dtypes.get(source, DType.U8)  # a storage parameter is a tensor of bytes
    offset = exact_quotient(at, dtype.itemsize)
    if dtype is type.dtype and offset is not None:
        layout = f"{scope.shape(type.sizes)}, {scope.shape(type.strides)}, {scope.expr(offset)}"
        return f"{scope.module.helper(Helper.REINTERPRET)}({name}, {layout})"
    layout = f"{scope.shape(type.sizes)}, {scope.shape(type.strides)}, {scope.expr(at)}"
    return f"{scope.module.helper(Helper.WINDOW)}({name}, torch.{type.dtype.torch_name}, {layout})"


def constant_view(op: View, source: str, scope: ModuleScope) -> str:
    """A view of a constant, whose layout is made of ints."""
    type, given = _tensor_type(op.result), _tensor_type(op.source)
    layout = ", ".join(tuple_text([str(e) for e in part]) for part in (type.sizes, type.strides))
    offset = exact_quotient(op.offset, type.dtype.itemsize)
    if given.dtype is type.dtype and offset is not None:
        return f"{scope.helper(Helper.REINTERPRET)}({source}, {layout}, {offset})"
    return f"{scope.helper(Helper.WINDOW)}({source}, torch.{type.dtype.torch_name}, {layout}, {op.offset})"


def free(op: Free, scope: FunctionScope) -> None:
    """Ends every variable of the storage, so that its memory is released here."""
    scope.pending.pop(op.storage, None)
    members = scope.storage_members(op.storage)
    if op.storage in scope.slots.places:
        _poison_slot(op.storage, scope)
    elif scope.module.options.poison is not None and members:
        scope.out.line(f"{scope.module.helper(Helper.POISON)}({scope.name(members[0])})")
    scope.forget(members)


def drop(op: Drop, scope: FunctionScope) -> None:
    """Ends one variable."""
    scope.forget([op.value])


def copy(op: Copy, scope: FunctionScope) -> None:
    """`copy_` broadcasts and converts as the op does."""
    flag = ", non_blocking=True" if op.non_blocking else ""
    scope.out.line(f"{scope.name(op.dst)}.copy_({scope.name(op.src)}{flag})")


def ensure_aligned(op: EnsureAligned, scope: FunctionScope) -> None:
    """The copy relies on torch's allocators, which align to 64 bytes at least."""
    source = scope.name(op.source)
    clone = scope.module.helper(Helper.CLONE)
    text = f"{source} if {source}.data_ptr() % {op.alignment} == 0 else {clone}({source})"
    scope.out.line(f"{scope.bind(op.result)} = {text}")


def resize_storage(op: ResizeStorage, scope: FunctionScope) -> None:
    """Resizes the storage in place."""
    scope.out.line(f"{scope.name(op.target)}.untyped_storage().resize_({scope.expr(op.nbytes)})")


def set_storage(op: SetStorage, scope: FunctionScope) -> None:
    """Makes the target a view of the source, for every holder."""
    scope.out.line(f"{scope.name(op.target)}.set_({scope.name(op.source)})")
