"""Execution of ops without control flow, one function per op."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias, assert_never

from wrapper_ir import ir
from wrapper_ir.errors import ExecutionError, TensorCheckError
from wrapper_ir.expr import Expr, Int
from wrapper_ir.operators.library import apart_operands
from wrapper_ir_runtime.failures import fail_finite
from wrapper_ir_runtime.interp.debug import show_values
from wrapper_ir_runtime.interp.frame import Content, Frame
from wrapper_ir_runtime.results import fail_apart

PlainOp: TypeAlias = (
    ir.AllocStorage
    | ir.Slot
    | ir.Free
    | ir.Drop
    | ir.Copy
    | ir.EnsureAligned
    | ir.ResizeStorage
    | ir.SetStorage
    | ir.View
    | ir.Launch
    | ir.CallExtern
    | ir.Unpack
    | ir.Define
    | ir.AssertLayout
    | ir.AssertExpr
    | ir.AssertFinite
    | ir.RecordEvent
    | ir.WaitEvent
    | ir.SyncEvent
    | ir.Barrier
    | ir.EnterProfile
    | ir.EnterMemoryPool
    | ir.ExitScope
    | ir.CollectiveStart
    | ir.Wait
    | ir.Comment
    | ir.DebugValue
)
"""The ops without control flow."""
AnyFrame = Frame[Any]  # Any: handlers support every machine


def _alloc(op: ir.AllocStorage, frame: AnyFrame) -> None:
    type = op.result.type
    nbytes = int(frame.number(type.nbytes))
    if nbytes < 0 and not type.nbytes.free_symbols:
        raise ExecutionError("WIR924", f"%{op.result.name} would have {nbytes} bytes")
    nbytes = max(nbytes, 0)  # the extent of an empty layout with padded rows is negative
    zero = op.zero is not ir.ZeroMode.NONE
    storage = frame.machine.empty_storage(type, nbytes, zero)
    if not zero:
        frame.poison(storage)
    frame.bind(op.result, storage)


def _slot(op: ir.Slot, frame: AnyFrame) -> None:
    nbytes, offset = int(frame.number(op.result.type.nbytes)), int(frame.number(op.offset))
    pool = frame.value(op.pool)
    have = frame.machine.sizes(pool)[0]
    if not 0 <= offset <= offset + nbytes <= have:
        raise ExecutionError(
            "WIR924", f"%{op.result.name} would be bytes {offset} to {offset + nbytes} of {have}"
        )
    bytes_of = ir.TensorType(ir.DType.U8, (op.result.type.nbytes,), (Int(1),), op.result.type.device)
    slot = frame.machine.view(pool, bytes_of, [nbytes], [1], offset)
    if op.zero is ir.ZeroMode.NONE:
        frame.poison(slot)
    else:
        frame.machine.fill_bytes(slot, 0)
    frame.slots[op.result] = slot
    frame.bind(op.result, slot)


def _free(op: ir.Free, frame: AnyFrame) -> None:
    frame.free(op.storage)


def _drop(op: ir.Drop, frame: AnyFrame) -> None:
    frame.value(op.value)
    frame.unbind(op.value)


def _copy(op: ir.Copy, frame: AnyFrame) -> None:
    frame.machine.copy(frame.value(op.dst), frame.value(op.src), op.non_blocking)


def _ensure_aligned(op: ir.EnsureAligned, frame: AnyFrame) -> None:
    frame.bind(op.result, frame.machine.align(frame.value(op.source), op.alignment))


def _resize(op: ir.ResizeStorage, frame: AnyFrame) -> None:
    frame.machine.resize_storage(frame.value(op.target), int(frame.number(op.nbytes)))


def _set_storage(op: ir.SetStorage, frame: AnyFrame) -> None:
    frame.machine.set_storage(frame.value(op.target), frame.value(op.source))


def _view(op: ir.View, frame: AnyFrame) -> None:
    type = op.result.type
    offset = int(frame.number(op.offset))
    result = frame.machine.view(
        frame.value(op.source), type, frame.ints(type.sizes), frame.ints(type.strides), offset
    )
    if op.mode is ir.ViewMode.REUSE:
        _end_tensors(op.source, frame)
    frame.bind(op.result, result)


def _end_tensors(source: ir.Value, frame: AnyFrame) -> None:
    """Unbinds the source and every tensor over its storage. The storage remains live."""
    for root in frame.roots_of(source):
        for tenant in tuple(frame.tenants.get(root, ())):
            if tenant == source or not ir.is_storage(tenant):
                frame.unbind(tenant)


def _launch(op: ir.Launch, frame: AnyFrame) -> None:
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


def _check_extents(op: ir.Launch, kernel: ir.KernelDef, args: list[Content], frame: AnyFrame) -> None:
    """Checks that the bytes that a kernel may access exist. Kernels do not check."""
    pointers = [i for i, p in enumerate(kernel.params) if p.kind.takes_tensor]
    extents: list[Expr | None] = [*op.extents] or [None] * len(pointers)
    for position, extent in zip(pointers, extents):
        value, tensor = op.args[position], args[position]
        if not isinstance(value, ir.Value) or not ir.is_tensor(value):
            continue
        need = int(frame.number(ir.extent_bytes(value.type) if extent is None else extent))
        if extent is None or ir.is_layout_extent(extent, value.type):
            need = 0 if 0 in frame.machine.sizes(tensor) else need
        first = frame.machine.offset(tensor) * value.type.dtype.itemsize
        have = max(
            frame.machine.sizes(frame.machine.storage_of(tensor))[0] - first, 0
        )  # an empty tensor is anywhere
        if need > have:
            raise ExecutionError(
                "WIR924", f"@{op.kernel} may touch {need} bytes of %{value.name}, of which {have} are there"
            )


def _call_library(op: ir.OperatorCall, frame: AnyFrame) -> object:
    extern = frame.session.analyses.externs.get(op.target)
    if extern is None:
        raise ExecutionError("WIR927", f"the program declares no operator {op.target}")
    args = [frame.argument(arg) for arg in op.args]
    kwargs = {name: frame.argument(arg) for name, arg in op.kwargs}
    hook = frame.session.options.call
    if hook is None:
        return frame.machine.call_extern(extern, args, kwargs)
    return hook(extern, args, kwargs, lambda: frame.machine.call_extern(extern, args, kwargs))


def _call_extern(op: ir.CallExtern, frame: AnyFrame) -> None:
    result = _call_library(op, frame)
    if op.result is None:
        return
    if ir.is_results(op.result):
        frame.bind(op.result, result)
    else:
        frame.bind_checked(op.result, result)
    _check_apart(op, op.result, result, frame)


def _check_apart(op: ir.CallExtern, value: ir.Value, result: Any, frame: AnyFrame) -> None:
    """Raises ExecutionError WIR927 if a result that the schema declares as new has the memory of an
    operand."""
    machine, info = frame.machine, frame.session.analyses.extern_info[op.target]
    returned = result if len(info.schema.returns) > 1 else (result,)
    for number, part in enumerate(returned):
        operands = apart_operands(info, op, (number,))
        for item in part if isinstance(part, list | tuple) and operands else (part,):
            if not operands or not machine.is_tensor(item):
                continue
            address = machine.address(machine.storage_of(item))
            others = (machine.address(machine.storage_of(frame.value(x))) for x in operands)
            if address and address in others:
                fail_apart(value.name)


def _unpack(op: ir.Unpack, frame: AnyFrame) -> None:
    content = frame.value(op.source)
    for step in op.path:
        try:
            content = content[step]
        except (LookupError, TypeError) as error:
            raise ExecutionError("WIR927", f"%{op.source.name} has nothing at {list(op.path)}") from error
    frame.bind_checked(op.result, content)


def _define(op: ir.Define, frame: AnyFrame) -> None:
    frame.symbols[op.symbol] = frame.number(op.expr)


def _assert_layout(op: ir.AssertLayout, frame: AnyFrame) -> None:
    for tensor, sizes, strides in ir.asserted_layouts(op):
        check_layout(tensor, sizes, strides, op.message, frame)
    for tensor in op.tensors:
        if op.alignment and frame.machine.address(frame.value(tensor)) % op.alignment:
            message = f"the address of %{tensor.name} is not a multiple of {op.alignment} bytes"
            raise TensorCheckError("WIR921", message + _note(op.message))


def _note(message: str) -> str:
    return f" ({message})" if message else ""


def check_layout(
    value: ir.Value, sizes: Sequence[Expr], strides: Sequence[Expr], message: str, frame: AnyFrame
) -> None:
    """Raises TensorCheckError WIR921 unless a tensor has these sizes, and these strides in dims longer than
    1."""
    machine, tensor = frame.machine, frame.value(value)
    assert ir.is_tensor(value)
    want = frame.ints(sizes), frame.ints(strides)
    if not machine.layout_matches(tensor, value.type, *want):
        raise TensorCheckError(
            "WIR921",
            f"%{value.name} has sizes {list(machine.sizes(tensor))} and strides "
            f"{list(machine.strides(tensor))}, expected {want[0]} and {want[1]}{_note(message)}",
        )


def _assert_expr(op: ir.AssertExpr, frame: AnyFrame) -> None:
    if not frame.number(op.condition):
        values = {name: frame.symbols.get(name) for name in sorted(op.condition.free_symbols)}
        assignments = ", ".join(f"{name} = {value}" for name, value in values.items())
        raise ExecutionError(
            "WIR920", f"{op.message or 'assertion failed'}: {op.condition} with {assignments}"
        )


def _assert_finite(op: ir.AssertFinite, frame: AnyFrame) -> None:
    if not frame.machine.is_finite(frame.value(op.tensor)):
        fail_finite(f"%{op.tensor.name}", op.message)


def _record_event(op: ir.RecordEvent, frame: AnyFrame) -> None:
    """Binds an event. Ops execute in program order on all streams, so the event is complete at once."""
    frame.bind(op.result, op)


def _wait_event(op: ir.WaitEvent | ir.SyncEvent, frame: AnyFrame) -> None:
    frame.value(op.event)


def _barrier(op: ir.Barrier, frame: AnyFrame) -> None:
    """Does nothing: ops execute in program order."""


def _enter_profile(op: ir.EnterProfile, frame: AnyFrame) -> None:
    frame.scopes.append(op)
    hook = frame.session.options.profile
    if hook is not None:
        hook(op, True)


def _enter_memory_pool(op: ir.EnterMemoryPool, frame: AnyFrame) -> None:
    """Opens a scope only: machines have one allocator, and pools do not change results."""
    frame.scopes.append(op)


def _exit_scope(op: ir.ExitScope, frame: AnyFrame) -> None:
    if not frame.scopes:
        raise ExecutionError("WIR924", "a scope ends where none is open")
    ended, hook = frame.scopes.pop(), frame.session.options.profile
    if isinstance(ended, ir.EnterProfile) and hook is not None:
        hook(ended, False)


def _comment(op: ir.Comment, frame: AnyFrame) -> None:
    """Does nothing."""


def _collective(op: ir.CollectiveStart, frame: AnyFrame) -> None:
    returned = _call_library(op, frame)
    tensors = returned if isinstance(returned, list | tuple) else (returned,)
    if len(tensors) != len(op.results):
        raise ExecutionError(
            "WIR927", f"{op.target} returned {len(tensors)} tensors for {len(op.results)} results"
        )
    for result, tensor in zip(op.results, tensors, strict=True):
        frame.bind_checked(result, tensor, may_move=False)


def _wait(op: ir.Wait, frame: AnyFrame) -> None:
    frame.bind(op.result, frame.machine.wait(frame.value(op.source)))


def _debug(op: ir.DebugValue, frame: AnyFrame) -> None:
    contents = {value.name: frame.value(value) for value in op.values}
    hook = frame.session.options.debug
    if hook is not None:
        hook(op, contents)
    else:
        show_values(op, frame)


# Control flow is in `engine`.


def run_op(op: PlainOp, frame: AnyFrame) -> None:
    """Executes an op without control flow. mypy reports op classes without a handler."""
    match op:
        case ir.AllocStorage():
            _alloc(op, frame)
        case ir.Slot():
            _slot(op, frame)
        case ir.Free():
            _free(op, frame)
        case ir.Drop():
            _drop(op, frame)
        case ir.Copy():
            _copy(op, frame)
        case ir.EnsureAligned():
            _ensure_aligned(op, frame)
        case ir.ResizeStorage():
            _resize(op, frame)
        case ir.SetStorage():
            _set_storage(op, frame)
        case ir.View():
            _view(op, frame)
        case ir.Launch():
            _launch(op, frame)
        case ir.CallExtern():
            _call_extern(op, frame)
        case ir.Unpack():
            _unpack(op, frame)
        case ir.Define():
            _define(op, frame)
        case ir.AssertLayout():
            _assert_layout(op, frame)
        case ir.AssertExpr():
            _assert_expr(op, frame)
        case ir.AssertFinite():
            _assert_finite(op, frame)
        case ir.RecordEvent():
            _record_event(op, frame)
        case ir.WaitEvent():
            _wait_event(op, frame)
        case ir.SyncEvent():
            _wait_event(op, frame)
        case ir.Barrier():
            _barrier(op, frame)
        case ir.EnterProfile():
            _enter_profile(op, frame)
        case ir.EnterMemoryPool():
            _enter_memory_pool(op, frame)
        case ir.ExitScope():
            _exit_scope(op, frame)
        case ir.CollectiveStart():
            _collective(op, frame)
        case ir.Wait():
            _wait(op, frame)
        case ir.Comment():
            _comment(op, frame)
        case ir.DebugValue():
            _debug(op, frame)
        case _:
            assert_never(op)
