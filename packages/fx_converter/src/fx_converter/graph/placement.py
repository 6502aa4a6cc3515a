"""Where work runs: devices, streams and events."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch import fx

from fx_converter import targets
from fx_converter.graph.scope import FunctionScope
from wrapper_ir.ops import Barrier, Op, RecordEvent, SyncEvent, WaitEvent
from wrapper_ir.structure import operands, results
from wrapper_ir.types import CPU, Device, StorageType, TensorType

__all__ = ["barrier", "enter_device", "exit_device", "on_stream", "record_event", "sync_event", "wait_event"]


def enter_device(scope: FunctionScope) -> fx.Node | None:
    """A node that makes the program's device the current one, for launches and for allocators that take no device; None
    where there is no choice."""
    device = scope.program.program.target.device
    if device.type == CPU.type or device.index is None:
        return None
    return scope.call(targets.enter_device, str(device))


def exit_device(entered: fx.Node | None, scope: FunctionScope) -> None:
    """The node that ends it."""
    if entered is not None:
        scope.call(targets.exit_device, entered)


@contextmanager
def on_stream(op: Op, scope: FunctionScope) -> Iterator[None]:
    """Between two nodes that make the op's stream the current one, unless that is the caller's current stream.
    Raises NotSupportedError WIR910 for a stream of a device that has none."""
    stream: int = getattr(op, "stream", 0)  # ops that queue nothing have none
    if not stream:
        yield
        return
    device = _device(op)
    if device.type == CPU.type:
        raise scope.not_supported(
            "WIR910", f"stream {stream} of {device} does not exist", "put the op on stream 0"
        )
    context = scope.call(targets.enter_stream, str(device), stream)
    yield
    scope.call(targets.exit_stream, context)


def _device(op: Op) -> Device:
    """Where an op runs: with its tensors, as far as they are not on the host."""
    values = (*results(op), *operands(op))
    devices = [v.type.device for v in values if isinstance(v.type, TensorType | StorageType)]
    return next((d for d in devices if d.type != CPU.type), CPU)


def record_event(op: RecordEvent, scope: FunctionScope) -> None:
    """An event of torch's."""
    _check_host(op, scope)
    scope.bind(op.result, targets.record_event, str(op.device), op.stream)


def wait_event(op: WaitEvent, scope: FunctionScope) -> None:
    """The stream waits, the host goes on."""
    _check_host(op, scope)
    scope.call(targets.wait_event, scope.value(op.event), str(op.device), op.stream)


def sync_event(op: SyncEvent, scope: FunctionScope) -> None:
    """The host waits."""
    scope.call(targets.sync_event, scope.value(op.event))


def barrier(op: Barrier, scope: FunctionScope) -> None:
    """A call that torch keeps, and keeps in order with other calls that have effects."""
    scope.call(targets.barrier)


def _check_host(op: RecordEvent | WaitEvent, scope: FunctionScope) -> None:
    if op.device.type == CPU.type and op.stream:
        raise scope.not_supported(
            "WIR911", f"stream {op.stream} of {op.device} does not exist", "put the event on stream 0"
        )
