"""Rules for ops that allocate, end, fill and view storage."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from wrapper_ir import ir
from wrapper_ir.expr import Int
from wrapper_ir_lowering import steps
from wrapper_ir_lowering.state import FunctionState
from wrapper_ir_lowering.steps import SlotPlace, Step
from wrapper_ir_lowering.storages import NO_GROUP_MEMORY, element_type, is_whole, lacks_group_memory

_ZERO = Int(0)
_ONE = Int(1)


def alloc(op: ir.AllocStorage, state: FunctionState) -> Iterator[Step]:
    """Allocates a storage as its single complete view, if it has one, otherwise as a flat tensor.

    Persistent memory exists already. Raises NotSupportedError WIR913 for memory of a process group on the
    CPU.
    """
    storage = op.result
    if lacks_group_memory(storage.type):
        raise state.not_supported(*NO_GROUP_MEMORY)
    if storage in state.persistent.storages:
        if not state.persistent.is_held:
            yield _resized(storage, state)
        if op.zero is ir.ZeroMode.CALL:
            yield steps.Zero(value=storage, stream=state.stream(op, op.stream), at=state.at)
        return
    sole = state.sole_view(storage) if state.program.options.fuse_views else None
    if (
        sole is not None
        and is_whole(sole.result.type, sole.offset, storage.type)
        and storage not in state.made_elsewhere
    ):
        state.pending[storage] = op
        return
    window = state.shared_windows.whole.get(storage)
    if window is not None:
        yield _allocate_as(window, op, state)
        state.define(window)
        state.base_dtypes[storage] = window.type.dtype
        return
    lending = storage in state.slots.lending  # callees take bytes
    views, filled = state.slots.views.get(storage, ()), state.slots.filled.get(storage, ())
    dtype = ir.DType.U8 if lending else element_type(storage.type, views, filled)
    count = ir.exact_quotient(storage.type.nbytes, dtype.itemsize)
    assert count is not None  # `element_type` ensures it
    state.base_dtypes[storage] = dtype
    state.define(storage)
    yield steps.Allocate(
        result=storage,
        type=ir.TensorType(dtype, (count,), (_ONE,), storage.type.device),
        storage=storage,
        zero=op.zero is not ir.ZeroMode.NONE,
        stream=state.stream(op, op.stream),
        at=state.at,
    )


def _resized(storage: ir.Value[ir.Type], state: FunctionState) -> steps.ResizeBlock:
    block = state.persistent.storages[storage]
    return steps.ResizeBlock(block=block, nbytes=state.persistent.blocks[block].nbytes, at=state.at)


def slot(op: ir.Slot, state: FunctionState) -> Iterator[Step]:
    """Views of a slot are created from its pool's tensor.

    A slot becomes a separate tensor only if a callee takes it, or it is filled with zeros.
    """
    place = _slot_place(op.result, state)
    is_lent = op.result in state.slots.lent
    is_there = place.base in state.persistent.storages and (
        not is_lent or op.result in state.persistent.values
    )
    if not is_there:
        if is_lent:
            state.define(op.result)
        yield steps.BeginSlot(slot=op.result, place=place, is_lent=is_lent, at=state.at)
    if op.zero is not ir.ZeroMode.NONE:
        yield steps.Zero(value=op.result, stream=state.stream(op, op.stream), at=state.at)


def _slot_place(slot: ir.Value[ir.StorageType], state: FunctionState) -> SlotPlace:
    base, start = state.slots.places[slot]
    dtype = state.base_dtypes.get(base, ir.DType.U8)  # a storage parameter is a tensor of bytes
    return SlotPlace(base=state.stands_for.get(base, base), dtype=dtype, start=start, nbytes=slot.type.nbytes)


def view(op: ir.View, state: FunctionState) -> Iterator[Step]:
    """An allocation if the storage waits for this view, otherwise a window. With `reuse`, the storage's other
    names end.
    """
    is_reuse = op.mode is ir.ViewMode.REUSE
    if op.result in state.persistent.values:
        if is_reuse and (ending := state.end(state.tenants(op.source))):
            yield steps.EndNames(ends=ending, at=state.at)
        return
    if op.result in state.windows:
        return
    pending = state.pending.pop(op.source, None)
    if pending is not None:
        state.define(op.result)
        yield _allocate_as(op.result, pending, state)
        return
    ended = [v for v in state.tenants(op.source) if ir.is_tensor(v)] if is_reuse else []
    ends = state.end(ended)
    state.define(op.result)
    shared = state.shared_windows.values.get(op.result)
    if shared is None:
        yield _window(op, ends, state)
        return
    if not state.is_alive(shared):
        yield _window(replace(op, result=shared, mode=ir.ViewMode.ALIAS), (), state)
        state.define(shared)
    yield steps.Same(result=op.result, source=shared, is_reuse=is_reuse, ends=ends, at=state.at)


def _allocate_as(tensor: ir.Value[ir.TensorType], op: ir.AllocStorage, state: FunctionState) -> Step:
    """One tensor that represents the storage."""
    state.stands_for[op.result] = tensor
    return steps.Allocate(
        result=tensor,
        type=tensor.type,
        storage=op.result,
        zero=op.zero is not ir.ZeroMode.NONE,
        stream=state.stream(op, op.stream),
        at=state.at,
    )


def _window(op: ir.View, ends: tuple[ir.Value[ir.Type], ...], state: FunctionState) -> Step:
    source, at = state.slots.place(op.source, op.offset)
    is_reuse, type = op.mode is ir.ViewMode.REUSE, op.result.type
    if ir.is_tensor(source):
        dtype = source.type.dtype
        if op.offset == _ZERO and source.type == type:
            return steps.Same(result=op.result, source=source, is_reuse=is_reuse, ends=ends, at=state.at)
    else:
        dtype = state.base_dtypes.get(source, ir.DType.U8)  # a storage parameter is a tensor of bytes
    offset = ir.exact_quotient(at, dtype.itemsize)
    base, where = (
        (steps.Window, offset) if dtype is type.dtype and offset is not None else (steps.ByteWindow, at)
    )
    return base(result=op.result, source=source, offset=where, is_reuse=is_reuse, ends=ends, at=state.at)


def free(op: ir.Free, state: FunctionState) -> Iterator[Step]:
    """Ends every name over the storage, so that its memory is released here."""
    state.pending.pop(op.storage, None)
    ends = state.end(state.tenants(op.storage))
    if state.slots.place(op.storage, _ZERO)[0] in state.persistent.storages:
        if op.storage in state.persistent.storages and not state.persistent.is_held:
            yield replace(_resized(op.storage, state), nbytes=0)
        return
    base = state.stands_for.get(op.storage, op.storage)
    slot = None
    if ir.is_storage(op.storage) and op.storage in state.slots.places:
        slot = _slot_place(op.storage, state)
    yield steps.EndStorage(storage=op.storage, base=base, slot=slot, ends=ends, at=state.at)


def drop(op: ir.Drop, state: FunctionState) -> Iterator[Step]:
    """Ends one name."""
    ends = state.end([op.value])
    if ends:
        yield steps.EndNames(ends=ends, at=state.at)


def copy(op: ir.Copy, state: FunctionState) -> Iterator[Step]:
    """Copies on the op's stream."""
    stream = state.stream(op, op.stream)
    yield steps.Copy(dst=op.dst, src=op.src, non_blocking=op.non_blocking, stream=stream, at=state.at)


def ensure_aligned(op: ir.EnsureAligned, state: FunctionState) -> Iterator[Step]:
    """Alignment is known only at run time."""
    state.define(op.result)
    yield steps.Align(result=op.result, source=op.source, alignment=op.alignment, at=state.at)


def resize_storage(op: ir.ResizeStorage, state: FunctionState) -> Iterator[Step]:
    """Resizes the storage of the target."""
    yield steps.ResizeStorage(target=op.target, nbytes=op.nbytes, at=state.at)


def set_storage(op: ir.SetStorage, state: FunctionState) -> Iterator[Step]:
    """Changes the target to the storage of the source."""
    yield steps.SetStorage(target=op.target, source=op.source, at=state.at)
