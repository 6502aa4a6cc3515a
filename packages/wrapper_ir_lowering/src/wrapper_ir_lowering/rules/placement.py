"""Streams, events and scopes."""

from __future__ import annotations

from collections.abc import Iterator

from wrapper_ir import ir
from wrapper_ir.support.quoting import printable
from wrapper_ir_lowering import steps
from wrapper_ir_lowering.state import FunctionState
from wrapper_ir_lowering.steps import Step, Stream


def _is_on_host(op: ir.RecordEvent | ir.WaitEvent, state: FunctionState) -> bool:
    """Raises NotSupportedError WIR911 for a stream of the host other than its only one."""
    if op.device.type != ir.CPU.type:
        return False
    if op.stream:
        raise state.not_supported(
            "WIR911", f"stream {op.stream} of {op.device} does not exist", "put the event on stream 0"
        )
    return True


def record_event(op: ir.RecordEvent, state: FunctionState) -> Iterator[Step]:
    """On the host, it is already complete."""
    on_host = _is_on_host(op, state)
    state.define(op.result)
    yield steps.RecordEvent(
        result=op.result, stream=Stream(op.device, op.stream), on_host=on_host, at=state.at
    )


def wait_event(op: ir.WaitEvent, state: FunctionState) -> Iterator[Step]:
    """On the host it has happened already."""
    on_host = _is_on_host(op, state)
    yield steps.WaitEvent(event=op.event, stream=Stream(op.device, op.stream), on_host=on_host, at=state.at)


def sync_event(op: ir.SyncEvent, state: FunctionState) -> Iterator[Step]:
    """An event of the host has happened already; one that another function recorded may be any device's."""
    recorded = (o for o in state.function.ops_of(ir.RecordEvent) if o.result == op.event)
    on_host = any(o.device.type == ir.CPU.type for o in recorded)
    yield steps.SyncEvent(event=op.event, on_host=on_host, at=state.at)


def barrier(op: ir.Barrier, state: FunctionState) -> Iterator[Step]:
    """Keeps the order of the steps around it."""
    yield steps.Barrier(at=state.at)


def enter_profile(op: ir.EnterProfile, state: FunctionState) -> Iterator[Step]:
    """Profilers accept only valid UTF-8."""
    yield steps.EnterProfile(name=printable(op.name), details=printable(op.details), at=state.at)


def enter_memory_pool(op: ir.EnterMemoryPool, state: FunctionState) -> Iterator[Step]:
    """Raises NotSupportedError WIR224 for a device whose memory torch cannot take from pools."""
    if not op.device.traits.has_memory_pools:
        raise state.not_supported(
            "WIR224", f"torch has no memory pools on {op.device}", "leave the scope out, or use a CUDA device"
        )
    yield steps.EnterPool(name=op.name, device=op.device, at=state.at)


def exit_scope(op: ir.ExitScope, state: FunctionState) -> Iterator[Step]:
    """Ends the innermost scope."""
    yield steps.ExitScope(at=state.at)
