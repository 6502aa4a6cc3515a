"""Writes steps that allocate, free, fill and view memory."""

from __future__ import annotations

from cpp_wrapper.sources.scope import FunctionScope, dtype_text
from wrapper_ir import ir
from wrapper_ir.support.quoting import cpp_string
from wrapper_ir_lowering import steps

_DEVICE_ALIGNMENT = 512
"""Alignment of torch's caching allocator for CUDA devices, in bytes."""


def allocate(step: steps.Allocate, scope: FunctionScope) -> None:
    """Writes a call of torch's allocator, which aligns to 64 bytes, on devices to 512."""
    storage = step.storage.type
    if storage.is_group_memory:
        _allocate_shared(step, scope)
        return
    place = scope.place(storage.device)
    pinned = storage.space.kind is ir.MemoryKind.PINNED and not place and scope.module.gpu is not None
    if storage.space.kind is not ir.MemoryKind.DEFAULT and not pinned:
        kind = storage.space.kind.value
        raise scope.error(
            "CPP503",
            f"a storage in {kind} memory: libraries have plain memory, pinned memory for GPUs, and memory of "
            "groups",
        )
    most = _DEVICE_ALIGNMENT if place else ir.DEFAULT_ALIGNMENT
    if storage.alignment > most:
        raise scope.error("CPP503", f"memory aligned to {storage.alignment} bytes: torch aligns to {most}")
    layout = scope.layout(step.type)
    handle = scope.bind(step.result)
    function = "allocate_pinned" if pinned else "allocate"
    scope.line(f"{function}({handle}, {layout}, {dtype_text(step.type.dtype)}{place});")
    if step.zero:
        scope.line(f"zero({handle});")


_GROUP_OPERATORS = {
    ir.MemoryKind.SYMMETRIC: "wrapper_ir::empty_symmetric",
    ir.MemoryKind.REGISTERED: "wrapper_ir::empty_registered",
}
"""Operators of `wrapper_ir_torch`, which Python's loader registers.

An allocation id keeps its memory between calls.
"""
_GROUP_TYPES = ["SymInt[]", "SymInt[]", "ScalarType", "Device", "str", "int"]


def _allocate_shared(step: steps.Allocate, scope: FunctionScope) -> None:
    """Writes a call of an operator in Python, whose tensor the library keeps for later calls."""
    space, module = step.storage.type.space, scope.module
    name, group = _GROUP_OPERATORS[space.kind], space.group
    module.boxed[name] = _GROUP_TYPES, ["Tensor"]
    device = "device(run.gpu)" if scope.on_gpu(step.storage.type.device) else "cpu_device()"
    length = len(group.encode("utf-8", "surrogatepass"))
    memory = f"{{{cpp_string(name)}, {device}, {cpp_string(group)}, {length}, {space.alloc_id}u}}"
    layout, dtype = scope.layout(step.type), dtype_text(step.type.dtype)
    handle = scope.bind(step.result)
    scope.line(f"allocate_shared({handle}, {module.shared_places}, {memory}, {layout}, {dtype});")
    module.shared_places += 1
    if step.zero:
        scope.line(f"zero({handle});")


def zero(step: steps.Zero, scope: FunctionScope) -> None:
    """Writes a call that fills a tensor with zeros."""
    scope.line(f"zero({scope.handle(step.value)});")


def resize_block(step: steps.ResizeBlock, scope: FunctionScope) -> None:
    """Writes a call that resizes a persistent block under its tensors."""
    scope.line(f"resize(k[{scope.module.persistent_blocks[step.block]}], {step.nbytes});")


def begin_slot(step: steps.BeginSlot, scope: FunctionScope) -> None:
    """Writes a view for a slot that a callee receives; nothing for other slots."""
    if step.is_lent:
        source, place = scope.handle(step.place.base), step.place
        layout = f"{scope.numbers_text((place.count,))}, {{1}}"
        scope.line(f"window({scope.bind(step.slot)}, {source}, {layout}, {scope.number(place.first)});")


def same(step: steps.Same, scope: FunctionScope) -> None:
    """Moves the handle if the source ends here, otherwise creates a second one."""
    source = scope.handle(step.source)
    moves = step.source in step.ends and step.source in scope.live
    handle = scope.bind(step.result)
    if moves:
        del scope.live[step.source]
    scope.line(f"{handle} = {'take' if moves else 'same'}({source});")
    scope.end(step.ends)


def window(step: steps.Window, scope: FunctionScope) -> None:
    """Writes a view of the same element type."""
    source, layout = scope.handle(step.source), scope.layout(step.result.type)
    handle = scope.bind(step.result)
    scope.line(f"window({handle}, {source}, {layout}, {scope.number(step.offset)});")
    scope.end(step.ends)


def byte_window(step: steps.ByteWindow, scope: FunctionScope) -> None:
    """Writes a view of bytes."""
    type = step.result.type
    source, layout = scope.handle(step.source), scope.layout(type)
    handle = scope.bind(step.result)
    offset = scope.number(step.offset)
    scope.line(f"byte_window({handle}, {source}, {dtype_text(type.dtype)}, {layout}, {offset});")
    scope.end(step.ends)


def end_storage(step: steps.EndStorage, scope: FunctionScope) -> None:
    """Drops handles; the last one frees the memory."""
    scope.end(step.ends)


def end_names(step: steps.EndNames, scope: FunctionScope) -> None:
    """Drops handles."""
    scope.end(step.ends)


def copy(step: steps.Copy, scope: FunctionScope) -> None:
    """Writes a `copy_`, which broadcasts and converts as the step does."""
    function = "start_copy" if step.non_blocking else "copy"
    scope.line(f"{function}({scope.handle(step.dst)}, {scope.handle(step.src)});")


def align(step: steps.Align, scope: FunctionScope) -> None:
    """Writes an aligned copy, which relies on torch's allocator: it aligns to 64 bytes."""
    source = scope.handle(step.source)
    run = ", run" if scope.is_captured else ""
    scope.line(f"align({scope.bind(step.result)}, {source}, {step.alignment}{run});")


def resize_storage(step: steps.ResizeStorage, scope: FunctionScope) -> None:
    """Resizes the storage of the tensor that all its handles share."""
    scope.line(f"resize({scope.handle(step.target)}, {scope.number(step.nbytes)});")


def set_storage(step: steps.SetStorage, scope: FunctionScope) -> None:
    """Replaces the storage of the tensor that all its handles share."""
    scope.line(f"set_storage({scope.handle(step.target)}, {scope.handle(step.source)});")
