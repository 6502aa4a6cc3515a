"""Writes where work runs: streams, events, scopes, and the guard of the program's device."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

from py_wrapper.emit.helpers import Helper
from py_wrapper.emit.scope import FunctionScope
from wrapper_ir.support.quoting import python_attribute, python_string
from wrapper_ir_lowering import steps


def on_stream(step: steps.Step, scope: FunctionScope) -> AbstractContextManager[None]:
    """A `with` block for what a step queues, unless that goes to the stream that is current when the program is called."""
    if (
        not isinstance(
            step,
            steps.Allocate
            | steps.Zero
            | steps.Copy
            | steps.Launch
            | steps.CallOperator
            | steps.StartCollective,
        )
        or step.stream is None
    ):
        return nullcontext()
    name, kind = scope.module.streams[step.stream], step.stream.device.type
    return scope.out.block(f"with {python_attribute('torch', kind)}.stream({name}):")


def _stream(stream: steps.Stream, scope: FunctionScope) -> str:
    """The stream of an event."""
    if stream.number:
        return scope.module.streams[stream]
    device = stream.device
    return f"{python_attribute('torch', device.type)}.current_stream({python_string(str(device))})"


def record_event(step: steps.RecordEvent, scope: FunctionScope) -> None:
    """An event of torch's; on the host, where nothing is queued, it has happened already."""
    name = scope.bind(step.result)
    if step.on_host:
        scope.out.line(f"{name} = None  # an event; on the CPU it has happened already")
        return
    scope.out.line(f"{name} = {python_attribute('torch', step.stream.device.type)}.Event()")
    scope.out.line(f"{name}.record({_stream(step.stream, scope)})")


def wait_event(step: steps.WaitEvent, scope: FunctionScope) -> None:
    """The stream waits, the host goes on; an event of the host has happened already."""
    name = scope.name(step.event)
    if step.on_host:
        scope.out.line(f"# wait for {name}: it has happened already")
        return
    scope.out.line(f"{_stream(step.stream, scope)}.wait_event({name})")


def sync_event(step: steps.SyncEvent, scope: FunctionScope) -> None:
    """The host waits."""
    name = scope.name(step.event)
    if step.on_host:
        scope.out.line(f"# synchronise with {name}: it has happened already")
        return
    scope.out.line(f"{name}.synchronize()")


def barrier(step: steps.Barrier, scope: FunctionScope) -> None:
    """Python keeps the order of its lines; the reader is told why they have it."""
    scope.out.comment("barrier")


def enter_device(step: steps.EnterDevice, scope: FunctionScope) -> None:
    """A `with` block to the function's end. Torch's own guard for generated code looks nothing up; other devices have
    none."""
    device = step.device
    cuda = device.type == "cuda"
    attribute = f"{python_attribute('torch', device.type)}.device"
    guard = scope.module.helper(Helper.DEVICE_GUARD) if cuda else attribute
    scope.out.open_block(f"with {guard}({device.index}):")


def enter_profile(step: steps.EnterProfile, scope: FunctionScope) -> None:
    """Torch's own scope of its profilers."""
    texts = map(python_string, (step.name, step.details) if step.details else (step.name,))
    scope.out.open_block(f"with torch.profiler.record_function({', '.join(texts)}):")


def enter_pool(step: steps.EnterPool, scope: FunctionScope) -> None:
    """The process's pool of this name."""
    use = scope.module.runtime("use_memory_pool")
    text = f"{use}(torch, {python_string(step.name)}, {python_string(str(step.device))})"
    scope.out.open_block(f"with {text}:")


def exit_scope(step: steps.ExitScope, scope: FunctionScope) -> None:
    """The end of a block."""
    scope.out.close_block()
