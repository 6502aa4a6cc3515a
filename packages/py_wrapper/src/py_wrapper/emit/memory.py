"""Writes steps that allocate, free, fill and view memory."""

from __future__ import annotations

from py_wrapper.emit.helpers import Helper
from py_wrapper.emit.module import ModuleScope
from py_wrapper.emit.placement import on_memory_stream
from py_wrapper.emit.scope import FunctionScope
from py_wrapper.emit.writer import tuple_text
from wrapper_ir import ir
from wrapper_ir.support.quoting import python_string
from wrapper_ir_lowering import ConstantWindow, steps


def allocate(step: steps.Allocate, scope: FunctionScope) -> None:
    """Calls torch's fastest allocator for the device."""
    text = _empty(step.type, step.storage.type, scope)
    if step.zero:
        text = f"{text}.zero_()"
    elif scope.module.options.poison is not None:
        text = f"{scope.module.helper(Helper.POISON)}({text})"
    scope.out.line(f"{scope.bind(step.result)} = {text}")


def _empty(type: ir.TensorType, storage: ir.StorageType, scope: FunctionScope) -> str:
    args = f"{scope.shape(type.sizes)}, {scope.shape(type.strides)}"
    torch_dtype, device = f"torch.{type.dtype.torch_name}", python_string(str(type.device))
    if storage.is_group_memory:
        target = f"torch.device({device}), {python_string(storage.space.group)}, {storage.space.alloc_id}"
        memory = Helper.EMPTY_SYMMETRIC if storage.is_symmetric else Helper.EMPTY_REGISTERED
        return f"{scope.module.helper(memory)}.tensor({args}, {torch_dtype}, {target})"
    if type.device.type == "cuda" and type.device == scope.module.program.target.device:
        return f"{scope.module.helper(Helper.EMPTY_CUDA)}({args}, {torch_dtype})"
    if type.device != ir.CPU:
        return f"torch.empty_strided({args}, dtype={torch_dtype}, device={device})"
    helper = Helper.EMPTY_PINNED if storage.space.kind is ir.MemoryKind.PINNED else Helper.EMPTY
    return f"{scope.module.helper(helper)}({args}, {torch_dtype})"


def zero(step: steps.Zero, scope: FunctionScope) -> None:
    """Fills in place."""
    scope.out.line(f"{scope.name(step.value)}.zero_()")


def resize_block(step: steps.ResizeBlock, scope: FunctionScope) -> None:
    """Calls the function that resizes the block, whose tensors exist already."""
    scope.out.line(f"{scope.resize_names[step.block]}({step.nbytes})")


def begin_slot(step: steps.BeginSlot, scope: FunctionScope) -> None:
    """Writes a window only for a slot that is passed to a callee, or filled with zeros."""
    if step.is_lent:
        place, base = step.place, scope.name(step.place.base)
        elements = f"{base}[{scope.expr(place.first)}:{scope.expr(place.first + place.count)}]"
        scope.out.line(f"{scope.bind(step.slot)} = {elements}")
    if scope.module.options.poison is not None:
        _poison_slot(step.slot, step.place, scope)


def _bytes_of(place: steps.SlotPlace, scope: FunctionScope) -> str:
    name = scope.name(place.base)
    if place.dtype is ir.DType.U8:
        return f"{name}[{scope.expr(place.start)}:{scope.expr(place.start + place.nbytes)}]"
    layout = f"{scope.shape((place.nbytes,))}, (1,), {scope.expr(place.start)}"
    return f"{scope.module.helper(Helper.WINDOW)}({name}, torch.uint8, {layout})"


def _poison_slot(slot: ir.Value, place: steps.SlotPlace, scope: FunctionScope) -> None:
    """Fills the bytes of a slot, which are undefined outside its lifetime, on its stream.

    Adjacent slots are not affected.
    """
    with on_memory_stream(slot, scope):
        scope.out.line(f"{_bytes_of(place, scope)}.fill_({scope.module.options.poison})")


def same(step: steps.Same, scope: FunctionScope) -> None:
    """Assigns another variable."""
    _assign(step, scope.name(step.source), scope)


def window(step: steps.Window | steps.ByteWindow, scope: FunctionScope) -> None:
    """Assigns a window to a variable."""
    _assign(step, window_text(step, scope), scope)


def byte_window(step: steps.ByteWindow, scope: FunctionScope) -> None:
    """Writes a tensor at a byte of a storage like any other window."""
    window(step, scope)


def window_text(step: steps.Window | steps.ByteWindow, scope: FunctionScope) -> str:
    """Returns the fastest call for a window of the same element type, or for a window of bytes."""
    type, name = step.result.type, scope.name(step.source)
    layout = f"{_layout(type, scope)}, {scope.expr(step.offset)}"
    if isinstance(step, steps.Window):
        return f"{scope.module.helper(Helper.REINTERPRET)}({name}, {layout})"
    return f"{scope.module.helper(Helper.WINDOW)}({name}, torch.{type.dtype.torch_name}, {layout})"


def _layout(type: ir.TensorType, scope: FunctionScope) -> str:
    return f"{scope.shape(type.sizes)}, {scope.shape(type.strides)}"


def _assign(step: steps.ViewStep, text: str, scope: FunctionScope) -> None:
    """Assigns a view to its variable. With `reuse`, the variables of the storage's other tensors end."""
    head = f"{scope.bind(step.result)} = {text}"
    ended = scope.unbind(step.ends)
    if ended:
        head = f"{head}; del {', '.join(ended)}"
    scope.out.line(f"{head}  # reuse" if step.is_reuse else head)


def constant_window(window: ConstantWindow, source: str, scope: ModuleScope) -> str:
    """A window of a constant, whose layout is made of ints."""
    type = window.result.type
    layout = ", ".join(tuple_text([str(e) for e in part]) for part in (type.sizes, type.strides))
    if window.in_bytes:
        dtype = f"torch.{type.dtype.torch_name}"
        return f"{scope.helper(Helper.WINDOW)}({source}, {dtype}, {layout}, {window.offset})"
    return f"{scope.helper(Helper.REINTERPRET)}({source}, {layout}, {window.offset})"


def end_storage(step: steps.EndStorage, scope: FunctionScope) -> None:
    """Ends every variable of the storage, so that its memory is released here."""
    if scope.module.options.poison is not None:
        if step.slot is not None:
            _poison_slot(step.storage, step.slot, scope)
        elif step.ends and all(step.storage is not p.value for p in scope.plan.function.params):
            # except arguments: several donated ones may share a storage
            with on_memory_stream(step.storage, scope):
                scope.out.line(f"{scope.module.helper(Helper.POISON)}({scope.name(step.ends[0])})")
    scope.forget(step.ends)


def end_names(step: steps.EndNames, scope: FunctionScope) -> None:
    """Ends variables."""
    scope.forget(step.ends)


def copy(step: steps.Copy, scope: FunctionScope) -> None:
    """Calls `copy_`, which broadcasts and converts as the step does."""
    flag = ", non_blocking=True" if step.non_blocking else ""
    scope.out.line(f"{scope.name(step.dst)}.copy_({scope.name(step.src)}{flag})")


def align(step: steps.Align, scope: FunctionScope) -> None:
    """Copies an unaligned tensor; torch's allocators align to at least 64 bytes."""
    source = scope.name(step.source)
    clone = scope.module.helper(Helper.CLONE)
    text = f"{source} if {source}.data_ptr() % {step.alignment} == 0 else {clone}({source})"
    scope.out.line(f"{scope.bind(step.result)} = {text}")


def resize_storage(step: steps.ResizeStorage, scope: FunctionScope) -> None:
    """Resizes the storage in place."""
    scope.out.line(f"{scope.name(step.target)}.untyped_storage().resize_({scope.expr(step.nbytes)})")


def set_storage(step: steps.SetStorage, scope: FunctionScope) -> None:
    """Makes the target a view of the source, for all references to it."""
    scope.out.line(f"{scope.name(step.target)}.set_({scope.name(step.source)})")
