"""Steps that allocate, free, fill and view storages."""

from __future__ import annotations

import operator

import torch
from torch import fx

from fx_converter import targets
from fx_converter.graph.placement import on_stream
from fx_converter.graph.scope import FunctionScope, NodeNumber
from fx_converter.nodes import Target
from wrapper_ir import ir
from wrapper_ir.expr import Expr, Int
from wrapper_ir_lowering import steps
from wrapper_ir_torch import (
    DTYPES,
    EMPTY_REGISTERED,
    EMPTY_SYMMETRIC,
    FAST_EMPTY,
    FAST_VIEW,
    signed_id,
    torch_device,
)

_aten = torch.ops.aten
_ONE = Int(1)


def allocate(step: steps.Allocate, scope: FunctionScope) -> None:
    """Adds the node that allocates, and a separate node that zeroes."""
    storage, type, result = step.storage.type, step.type, step.result
    sizes, strides = scope.numbers(type.sizes), scope.numbers(type.strides)
    pinned = storage.space.kind is ir.MemoryKind.PINNED
    val = scope.program.fakes.tensor(type)
    with on_stream(step, scope):
        fast = _fast_empty(type, pinned, scope)
        if storage.is_group_memory:
            target = torch_device(type.device), storage.space.group, signed_id(storage.space.alloc_id)
            args = list(sizes), list(strides), DTYPES[type.dtype], *target
            empty = EMPTY_SYMMETRIC if storage.is_symmetric else EMPTY_REGISTERED
            node = scope.bind(result, empty, *args, val=val)
        elif fast is not None:
            node = scope.bind(result, fast, sizes, strides, DTYPES[type.dtype], val=val)
        else:
            node = scope.bind(
                result,
                _aten.empty_strided.default,
                list(sizes),
                list(strides),
                dtype=DTYPES[type.dtype],
                device=torch_device(type.device),
                pin_memory=pinned and torch.cuda.is_available(),
                val=val,
            )
        if step.zero:
            scope.call(_aten.zero_.default, node, val=val)
    scope.nodes[step.storage] = node


def zero(step: steps.Zero, scope: FunctionScope) -> None:
    """Fills in place."""
    node = scope.value(step.value)
    with on_stream(step, scope):
        scope.call(_aten.zero_.default, node, val=node.meta["val"])


def resize_block(step: steps.ResizeBlock, scope: FunctionScope) -> None:
    """Raises ConvertError FX101: nodes own all memory of a graph, and its caller may keep their tensors."""
    raise scope.invalid(f"memory of {step.nbytes} bytes is not a node's")


def begin_slot(step: steps.BeginSlot, scope: FunctionScope) -> None:
    """Adds a window only for a slot that is passed to a callee, or filled with zeros."""
    if step.is_lent:
        place = step.place
        type = ir.TensorType(place.dtype, (place.count,), (_ONE,), step.slot.type.device)
        _window(step.slot, scope.value(place.base), type, place.first, scope)


def _fast_empty(type: ir.TensorType, pinned: bool, scope: FunctionScope) -> Target | None:
    """Returns the allocator of this device that takes only a layout; None if none exists."""
    if not scope.program.direct or pinned:
        return None
    if type.device == ir.CPU or type.device == scope.program.program.target.device:
        return FAST_EMPTY.get(type.device.type)
    return None


def same(step: steps.Same, scope: FunctionScope) -> None:
    """Adds another node for the tensor. For `reuse`, it is also the last use of the source."""
    source = scope.value(step.source)
    node = scope.bind(step.result, targets.same, source, val=source.meta["val"])
    start = _known_start(source, scope)
    if start is not None:
        scope.starts[node] = start


def window(step: steps.Window, scope: FunctionScope) -> None:
    """Adds a window of the same element type."""
    _window(step.result, scope.value(step.source), step.result.type, step.offset, scope)


def byte_window(step: steps.ByteWindow, scope: FunctionScope) -> None:
    """Adds a window of another element type."""
    source, type = scope.value(step.source), step.result.type
    val = scope.program.fakes.view(source.meta["val"], type, None)
    sizes, strides = scope.numbers(type.sizes), scope.numbers(type.strides)
    offset = scope.number(step.offset)
    args = (DTYPES[type.dtype], list(sizes), list(strides), offset)
    scope.bind(step.result, targets.window, source, *args, val=val)


def _window(
    result: ir.Value, source: fx.Node, type: ir.TensorType, offset: Expr, scope: FunctionScope
) -> None:
    """Adds a window at `offset` elements from the source's first one. `as_strided` counts from the storage's
    start."""
    sizes, strides = scope.numbers(type.sizes), scope.numbers(type.strides)
    at = scope.number(offset)
    val = scope.program.fakes.view(source.meta["val"], type, at if isinstance(at, int) else None)
    if scope.program.direct:
        scope.bind(result, FAST_VIEW, source, sizes, strides, at, val=val)
        return
    start = _start(source, at, scope)
    node = scope.bind(result, _aten.as_strided.default, source, list(sizes), list(strides), start, val=val)
    if isinstance(start, int):
        scope.starts[node] = start


def _start(source: fx.Node, at: NodeNumber, scope: FunctionScope) -> NodeNumber:
    """Returns the position `at` elements after the source's first one, from the start of the storage."""
    start: NodeNumber | None = _known_start(source, scope)
    if start is None:
        start = scope.call(
            _aten.sym_storage_offset.default, source, val=scope.program.fakes.offset(source.meta["val"])
        )
    if isinstance(start, fx.Node):
        return start if at == 0 else scope.apply(operator.add, start, at)
    if isinstance(at, fx.Node):
        return at if start == 0 else scope.apply(operator.add, start, at)
    return start + at


def _known_start(source: fx.Node, scope: FunctionScope) -> int | None:
    """Returns the position of a tensor's first element in its storage, or None if it is not constant."""
    if source.target is _aten.empty_strided.default and source not in scope.reset:
        return 0
    return scope.starts.get(source)


def end_storage(step: steps.EndStorage, scope: FunctionScope) -> None:
    """Adds the last use of a storage. A slot ends with its pool."""
    node = scope.nodes.get(step.base) if step.slot is None else None
    if node is not None:
        scope.call(targets.free, node)


def end_names(step: steps.EndNames, scope: FunctionScope) -> None:
    """Does nothing: a name ends with its last use."""


def copy(step: steps.Copy, scope: FunctionScope) -> None:
    """Calls `copy_`, which broadcasts and converts as the step does."""
    dst, src = scope.value(step.dst), scope.value(step.src)
    with on_stream(step, scope):
        scope.call(_aten.copy_.default, dst, src, step.non_blocking, val=dst.meta["val"])


def align(step: steps.Align, scope: FunctionScope) -> None:
    """Calls a function that reads the address at run time."""
    val = scope.fake(step.result)
    scope.bind(step.result, targets.align, scope.value(step.source), step.alignment, val=val)


def resize_storage(step: steps.ResizeStorage, scope: FunctionScope) -> None:
    """Resizes the storage in place."""
    scope.call(targets.resize_storage, scope.value(step.target), scope.number(step.nbytes))


def set_storage(step: steps.SetStorage, scope: FunctionScope) -> None:
    """Makes the target a view of the source, for all references to it."""
    target, source = scope.value(step.target), scope.value(step.source)
    scope.starts.pop(target, None)
    scope.reset.add(target)
    scope.call(targets.set_storage, target, source)
