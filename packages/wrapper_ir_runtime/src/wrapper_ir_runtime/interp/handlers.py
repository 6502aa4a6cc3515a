"""What each op without control flow does, one function per op."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias, assert_never

from wrapper_ir.errors import ExecutionError, TensorCheckError
from wrapper_ir.expr import Expr, Int
from wrapper_ir.ir import ops
from wrapper_ir.ir.kernels import KernelDef
from wrapper_ir.ir.layout import extent_bytes, is_layout_extent
from wrapper_ir.ir.ops.check import asserted_layouts
from wrapper_ir.ir.types import DType, TensorType, TupleType
from wrapper_ir.ir.values import Value, is_storage
from wrapper_ir_runtime.failures import fail_finite
from wrapper_ir_runtime.interp.debug import show_values
from wrapper_ir_runtime.interp.frame import Frame

PlainOp: TypeAlias = (
    ops.AllocStorage
    | ops.Slot
    | ops.Free
    | ops.Drop
    | ops.Copy
    | ops.EnsureAligned
    | ops.ResizeStorage
    | ops.SetStorage
    | ops.View
    | ops.Launch
    | ops.CallExtern
    | ops.Unpack
    | ops.Define
    | ops.AssertLayout
    | ops.AssertExpr
    | ops.AssertFinite
    | ops.RecordEvent
    | ops.WaitEvent
    | ops.SyncEvent
    | ops.Barrier
    | ops.EnterProfile
    | ops.EnterMemoryPool
    | ops.ExitScope
    | ops.CollectiveStart
    | ops.Wait
    | ops.Comment
    | ops.DebugValue
)
"""The ops without control flow."""
AnyFrame = Frame[Any]  # Any: handlers work on every machine


def _alloc(op: ops.AllocStorage, frame: AnyFrame) -> None:
    type = op.result.type
    nbytes = int(frame.number(type.nbytes))
    if nbytes < 0 and not type.nbytes.free_symbols:
        raise ExecutionError("WIR924", f"%{op.result.name} would have {nbytes} bytes")
    nbytes = max(nbytes, 0)  # the extent of padded rows, of which there are none
    zero = op.zero is not ops.ZeroMode.NONE
    storage = frame.machine.empty_storage(type, nbytes, zero)
    if not zero:
        frame.poison(storage)
    frame.bind(op.result, storage)


def _slot(op: ops.Slot, frame: AnyFrame) -> None:
    nbytes, offset = int(frame.number(op.result.type.nbytes)), int(frame.number(op.offset))
    pool = frame.value(op.pool)
    have = frame.machine.sizes(pool)[0]
    if not 0 <= offset <= offset + nbytes <= have:
        raise ExecutionError(
            "WIR924", f"%{op.result.name} would be bytes {offset} to {offset + nbytes} of {have}"
        )
    bytes_of = TensorType(DType.U8, (op.result.type.nbytes,), (Int(1),), op.result.type.device)
    slot = frame.machine.view(pool, bytes_of, [nbytes], [1], offset)
    if op.zero is ops.ZeroMode.NONE:
        frame.poison(slot)
    else:
        frame.machine.fill_bytes(slot, 0)
    frame.slots[op.result] = slot
    frame.bind(op.result, slot)


def _free(op: ops.Free, frame: AnyFrame) -> None:
    frame.free(op.storage)


def _drop(op: ops.Drop, frame: AnyFrame) -> None:
    frame.value(op.value)
    frame.unbind(op.value)


def _copy(op: ops.Copy, frame: AnyFrame) -> None:
    frame.machine.copy(frame.value(op.dst), frame.value(op.src), op.non_blocking)


def _ensure_aligned(op: ops.EnsureAligned, frame: AnyFrame) -> None:
    frame.bind(op.result, frame.machine.align(frame.value(op.source), op.alignment))


def _resize(op: ops.ResizeStorage, frame: AnyFrame) -> None:
    frame.machine.resize_storage(frame.value(op.target), int(frame.number(op.nbytes)))


def _set_storage(op: ops.SetStorage, frame: AnyFrame) -> None:
    frame.machine.set_storage(frame.value(op.target), frame.value(op.source))


def _view(op: ops.View, frame: AnyFrame) -> None:
    type = op.result.type
    offset = int(frame.number(op.offset))
    result = frame.machine.view(
        frame.value(op.source), type, frame.ints(type.sizes), frame.ints(type.strides), offset
    )
    if op.mode is ops.ViewMode.REUSE:
        _end_tensors(op.source, frame)
    frame.bind(op.result, result)


def _end_tensors(source: Value, frame: AnyFrame) -> None:
    """Reuse ends the source and every tensor over its storage, but not the storage."""
    for root in frame.roots_of(source):
        for tenant in tuple(frame.tenants.get(root, ())):
            if tenant == source or not is_storage(tenant):
                frame.unbind(tenant)


def _launch(op: ops.Launch, frame: AnyFrame) -> None:
    kernel = frame.session.analyses.kernels.get(op.kernel)
    if kernel is None or len(op.args) != len(kernel.params):
        raise ExecutionError("WIR924", f"@{op.kernel} is unknown or takes another number of arguments")
    args = [frame.argument(arg) for arg in op.args]
    _check_extents(op, kernel, args, frame)
    grid = tuple(frame.ints(op.grid))
    loaded, hook = frame.session.kernels[op.kernel], frame.session.options.launch
    if hook is None:
        frame.machine.launch(loaded, args, grid)
    else:
        hook(op.kernel, lambda: frame.machine.launch(loaded, args, grid))


def _check_extents(op: ops.Launch, kernel: KernelDef, args: list[Any], frame: AnyFrame) -> None:
    """Checks that the bytes which a kernel may touch exist; the kernel itself checks nothing."""
    pointers = [i for i, p in enumerate(kernel.params) if p.kind.takes_tensor]
    extents: list[Expr | None] = [*op.extents] or [None] * len(pointers)
    for position, extent in zip(pointers, extents):
        value, held = op.args[position], args[position]
        if not isinstance(value, Value) or not isinstance(value.type, TensorType):
            continue
        need = int(frame.number(extent_bytes(value.type) if extent is None else extent))
        if extent is None or is_layout_extent(extent, value.type):
            need = 0 if 0 in frame.machine.sizes(held) else need
        first = frame.machine.offset(held) * value.type.dtype.itemsize
        have = max(
            frame.machine.sizes(frame.machine.storage_of(held))[0] - first, 0
        )  # an empty tensor is anywhere
        if need > have:
            raise ExecutionError(
                "WIR924", f"@{op.kernel} may touch {need} bytes of %{value.name}, of which {have} are there"
            )


def _call_library(
    op: ops.CallExtern | ops.CollectiveStart, frame: AnyFrame
) -> Any:  # Any: whatever the library returns
    extern = frame.session.analyses.externs.get(op.target)
    if extern is None:
        raise ExecutionError("WIR927", f"the program declares no operator {op.target}")
    args = [frame.argument(arg) for arg in op.args]
    kwargs = {name: frame.argument(arg) for name, arg in op.kwargs}
    hook = frame.session.options.call
    if hook is None:
        return frame.machine.call_extern(extern, args, kwargs)
    return hook(extern, args, kwargs, lambda: frame.machine.call_extern(extern, args, kwargs))


def _call_extern(op: ops.CallExtern, frame: AnyFrame) -> None:
    result = _call_library(op, frame)
    if op.result is None:
        return
    if isinstance(op.result.type, TupleType):
        frame.bind(op.result, result)
    else:
        frame.bind_checked(op.result, result)


def _unpack(op: ops.Unpack, frame: AnyFrame) -> None:
    held = frame.value(op.source)
    for step in op.path:
        try:
            held = held[step]
        except (LookupError, TypeError) as error:
            raise ExecutionError("WIR927", f"%{op.source.name} has nothing at {list(op.path)}") from error
    frame.bind_checked(op.result, held)


def _define(op: ops.Define, frame: AnyFrame) -> None:
    frame.symbols[op.symbol] = frame.number(op.expr)


def _assert_layout(op: ops.AssertLayout, frame: AnyFrame) -> None:
    for tensor, sizes, strides in asserted_layouts(op):
        check_layout(tensor, sizes, strides, op.message, frame)
    for tensor in op.tensors:
        if op.alignment and frame.machine.address(frame.value(tensor)) % op.alignment:
            message = f"the address of %{tensor.name} is not a multiple of {op.alignment} bytes"
            raise TensorCheckError("WIR921", message + _note(op.message))


def _note(message: str) -> str:
    return f" ({message})" if message else ""


def check_layout(
    value: Value, sizes: Sequence[Expr], strides: Sequence[Expr], message: str, frame: AnyFrame
) -> None:
    """Raises TensorCheckError WIR921 unless a tensor has these sizes, and strides where they matter."""
    machine, tensor = frame.machine, frame.value(value)
    assert isinstance(value.type, TensorType)
    want = frame.ints(sizes), frame.ints(strides)
    if not machine.layout_matches(tensor, value.type, *want):
        raise TensorCheckError(
            "WIR921",
            f"%{value.name} has sizes {list(machine.sizes(tensor))} and strides "
            f"{list(machine.strides(tensor))}, expected {want[0]} and {want[1]}{_note(message)}",
        )


def _assert_expr(op: ops.AssertExpr, frame: AnyFrame) -> None:
    if not frame.number(op.condition):
        values = {name: frame.symbols.get(name) for name in sorted(op.condition.free_symbols)}
        shown = ", ".join(f"{name} = {value}" for name, value in values.items())
        raise ExecutionError("WIR920", f"{op.message or 'assertion failed'}: {op.condition} with {shown}")


def _assert_finite(op: ops.AssertFinite, frame: AnyFrame) -> None:
    if not frame.machine.is_finite(frame.value(op.tensor)):
        fail_finite(f"%{op.tensor.name}", op.message)


def _record_event(op: ops.RecordEvent, frame: AnyFrame) -> None:
    """Ops run one after the other, whatever their stream: an event has happened once it is there."""
    frame.bind(op.result, op)


def _wait_event(op: ops.WaitEvent | ops.SyncEvent, frame: AnyFrame) -> None:
    frame.value(op.event)


def _barrier(op: ops.Barrier, frame: AnyFrame) -> None:
    """Ops run in the order of the program."""


def _enter_profile(op: ops.EnterProfile, frame: AnyFrame) -> None:
    frame.scopes.append(op)
    hook = frame.session.options.profile
    if hook is not None:
        hook(op, True)


def _enter_memory_pool(op: ops.EnterMemoryPool, frame: AnyFrame) -> None:
    """Machines have one allocator; where memory comes from changes no result."""
    frame.scopes.append(op)


def _exit_scope(op: ops.ExitScope, frame: AnyFrame) -> None:
    if not frame.scopes:
        raise ExecutionError("WIR924", "a scope ends where none is open")
    ended, hook = frame.scopes.pop(), frame.session.options.profile
    if isinstance(ended, ops.EnterProfile) and hook is not None:
        hook(ended, False)


def _comment(op: ops.Comment, frame: AnyFrame) -> None:
    """Nothing to do."""


def _collective(op: ops.CollectiveStart, frame: AnyFrame) -> None:
    held = _call_library(op, frame)
    found = held if isinstance(held, list | tuple) else (held,)
    if len(found) != len(op.results):
        raise ExecutionError(
            "WIR927", f"{op.target} returned {len(found)} tensors for {len(op.results)} results"
        )
    for result, tensor in zip(op.results, found, strict=True):
        frame.bind_checked(result, tensor, may_move=False)


def _wait(op: ops.Wait, frame: AnyFrame) -> None:
    frame.bind(op.result, frame.machine.wait(frame.value(op.source)))


def _debug(op: ops.DebugValue, frame: AnyFrame) -> None:
    held = {value.name: frame.value(value) for value in op.values}
    hook = frame.session.options.debug
    if hook is not None:
        hook(op, held)
    else:
        show_values(op, frame)


# Control flow is in `engine`.


def run_op(op: PlainOp, frame: AnyFrame) -> None:
    """Executes an op without control flow. mypy names an op class that has no meaning here."""
    match op:
        case ops.AllocStorage():
            _alloc(op, frame)
        case ops.Slot():
            _slot(op, frame)
        case ops.Free():
            _free(op, frame)
        case ops.Drop():
            _drop(op, frame)
        case ops.Copy():
            _copy(op, frame)
        case ops.EnsureAligned():
            _ensure_aligned(op, frame)
        case ops.ResizeStorage():
            _resize(op, frame)
        case ops.SetStorage():
            _set_storage(op, frame)
        case ops.View():
            _view(op, frame)
        case ops.Launch():
            _launch(op, frame)
        case ops.CallExtern():
            _call_extern(op, frame)
        case ops.Unpack():
            _unpack(op, frame)
        case ops.Define():
            _define(op, frame)
        case ops.AssertLayout():
            _assert_layout(op, frame)
        case ops.AssertExpr():
            _assert_expr(op, frame)
        case ops.AssertFinite():
            _assert_finite(op, frame)
        case ops.RecordEvent():
            _record_event(op, frame)
        case ops.WaitEvent():
            _wait_event(op, frame)
        case ops.SyncEvent():
            _wait_event(op, frame)
        case ops.Barrier():
            _barrier(op, frame)
        case ops.EnterProfile():
            _enter_profile(op, frame)
        case ops.EnterMemoryPool():
            _enter_memory_pool(op, frame)
        case ops.ExitScope():
            _exit_scope(op, frame)
        case ops.CollectiveStart():
            _collective(op, frame)
        case ops.Wait():
            _wait(op, frame)
        case ops.Comment():
            _comment(op, frame)
        case ops.DebugValue():
            _debug(op, frame)
        case _:
            assert_never(op)
