"""Writes where work runs: streams, events, and the guard of the program's device."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

from py_wrapper.emit.helpers import Helper
from py_wrapper.emit.module import ModuleScope, stream_device
from py_wrapper.emit.scope import FunctionScope
from py_wrapper.emit.writer import Writer
from wrapper_ir.ops import Barrier, Op, RecordEvent, SyncEvent, WaitEvent
from wrapper_ir.quoting import python_attribute, python_string
from wrapper_ir.types import CPU

__all__ = ["barrier", "device_guard", "on_stream", "record_event", "sync_event", "wait_event"]


def on_stream(op: Op, scope: FunctionScope) -> AbstractContextManager[None]:
    """A `with` block for what an op queues, unless that goes to the stream that is current when the program is called.
    Raises NotSupportedError WIR910 for a stream of a device that has none."""
    stream: int = getattr(op, "stream", 0)
    if not stream or isinstance(op, RecordEvent | WaitEvent):
        return nullcontext()
    device = stream_device(op)
    if device.type == CPU.type:
        raise scope.not_supported(
            "WIR910", f"stream {stream} of {device} does not exist", "put the op on stream 0"
        )
    name = scope.module.stream(device, stream)
    return scope.out.block(f"with {python_attribute('torch', device.type)}.stream({name}):")


def _stream(op: RecordEvent | WaitEvent, scope: FunctionScope) -> str:
    """The stream of an event."""
    if op.stream:
        return scope.module.stream(op.device, op.stream)
    return f"{python_attribute('torch', op.device.type)}.current_stream({python_string(str(op.device))})"


def record_event(op: RecordEvent, scope: FunctionScope) -> None:
    """An event of torch's; on the host, where nothing is queued, it has happened already."""
    if _on_host(op, scope):
        scope.out.line(f"{scope.bind(op.result)} = None  # an event; on the CPU it has happened already")
        return
    name = scope.bind(op.result)
    scope.out.line(f"{name} = {python_attribute('torch', op.device.type)}.Event()")
    scope.out.line(f"{name}.record({_stream(op, scope)})")


def wait_event(op: WaitEvent, scope: FunctionScope) -> None:
    """The stream waits, the host goes on; an event of the host has happened already."""
    name = scope.name(op.event)
    if _on_host(op, scope):
        scope.out.line(f"# wait for {name}: it has happened already")
        return
    scope.out.line(f"{_stream(op, scope)}.wait_event({name})")


def sync_event(op: SyncEvent, scope: FunctionScope) -> None:
    """The host waits."""
    name = scope.name(op.event)
    recorded = next(
        (o for o in scope.function.body if isinstance(o, RecordEvent) and o.result == op.event), None
    )
    if recorded is not None and recorded.device.type == CPU.type:
        scope.out.line(f"# synchronise with {name}: it has happened already")
        return
    scope.out.line(f"{name}.synchronize()")


def barrier(op: Barrier, scope: FunctionScope) -> None:
    """Python keeps the order of its lines; the reader is told why they have it."""
    scope.out.comment("barrier")


def _on_host(op: RecordEvent | WaitEvent, scope: FunctionScope) -> bool:
    if op.device.type != CPU.type:
        return False
    if op.stream:
        raise scope.not_supported(
            "WIR911", f"stream {op.stream} of {op.device} does not exist", "put the event on stream 0"
        )
    return True


@contextmanager
def device_guard(scope: ModuleScope, out: Writer) -> Iterator[None]:
    """Makes the program's device the current one around what is written inside."""
    device = scope.program.target.device
    if device.type == CPU.type or device.index is None:
        yield
    else:
        # torch's own guard for generated code looks nothing up; other devices have none
        cuda = device.type == "cuda"
        guard = (
            scope.helper(Helper.DEVICE_GUARD) if cuda else f"{python_attribute('torch', device.type)}.device"
        )
        with out.block(f"with {guard}({device.index}):"):
            yield
