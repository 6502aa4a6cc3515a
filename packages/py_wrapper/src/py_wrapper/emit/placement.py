"""Writes streams, events, scopes, and the guard of the program's device."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

from py_wrapper.emit.helpers import Helper
from py_wrapper.emit.scope import FunctionScope
from wrapper_ir import ir
from wrapper_ir.support.quoting import python_attribute, python_string
from wrapper_ir_lowering import steps


def on_stream(step: steps.Step, scope: FunctionScope) -> AbstractContextManager[None]:
    """Makes another stream than the caller's current around a step that queues work on it."""
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
    return _block(step.stream, scope)


def on_memory_stream(memory: ir.Value, scope: FunctionScope) -> AbstractContextManager[None]:
    """Makes the stream of a storage or slot current around work on it, unless that is the caller's."""
    op = scope.allocations.get(memory)
    if op is None or not op.stream:
        return nullcontext()
    return _block(steps.Stream(op.result.type.device, op.stream), scope)


@contextmanager
def _block(stream: steps.Stream, scope: FunctionScope) -> Iterator[None]:
    """Writes the guard of a stream, within that of its device unless that is the program's.

    Each guard restores by one function in C, after which Ctrl-C may be raised.
    """
    functions, variable, device = (
        _functions(stream.device, scope),
        scope.module.streams[stream],
        stream.device,
    )
    is_current = device == scope.module.program.target.device and device.index is not None
    index = f"{variable}.device_index" if device.index is None else str(device.index)
    if not is_current:
        _open_device(functions, index, scope.saved("other_device_before"), scope)
    before = scope.saved("stream_before")
    scope.out.line(f"{before} = {functions}.current_stream({index})")
    scope.out.open_block("try:", f"{functions}.restore_stream(*{before})")
    scope.out.line(f"{functions}.enter_stream({variable})")
    yield
    scope.out.close_block()
    if not is_current:
        scope.out.close_block()


def _open_device(functions: str, index: str, before: str, scope: FunctionScope) -> None:
    scope.out.line(f"{before} = {functions}.current_device()")
    scope.out.open_block("try:", f"{functions}.restore_device({before})")
    scope.out.line(f"{functions}.set_device({index})")


def _functions(device: ir.Device, scope: FunctionScope) -> str:
    """Returns the name of the functions of a type of device."""
    scope.module.helper(Helper.DEVICES)
    return scope.lookup(device.type, f"{Helper.DEVICES.value}({python_string(device.type)})")


def _stream(stream: steps.Stream, scope: FunctionScope) -> str:
    """Returns the stream of an event."""
    if stream.number:
        return scope.module.streams[stream]
    device = stream.device
    return f"{python_attribute('torch', device.type)}.current_stream({python_string(str(device))})"


def record_event(step: steps.RecordEvent, scope: FunctionScope) -> None:
    """Records an event of torch; on the host, whose calls are synchronous, None."""
    name = scope.bind(step.result)
    if step.on_host:
        scope.out.line(f"{name} = None  # an event; on the CPU it has happened already")
        return
    scope.out.line(f"{name} = {python_attribute('torch', step.stream.device.type)}.Event()")
    scope.out.line(f"{name}.record({_stream(step.stream, scope)})")


def wait_event(step: steps.WaitEvent, scope: FunctionScope) -> None:
    """Makes the stream wait; the host continues. An event of the host is complete."""
    name = scope.name(step.event)
    if step.on_host:
        scope.out.line(f"# wait for {name}: it has happened already")
        return
    scope.out.line(f"{_stream(step.stream, scope)}.wait_event({name})")


def sync_event(step: steps.SyncEvent, scope: FunctionScope) -> None:
    """Makes the host wait."""
    name = scope.name(step.event)
    if step.on_host:
        scope.out.line(f"# synchronise with {name}: it has happened already")
        return
    scope.out.line(f"{name}.synchronize()")


def barrier(step: steps.Barrier, scope: FunctionScope) -> None:
    """Writes a comment; Python keeps the order of its lines."""
    scope.out.comment("barrier")


def enter_device(step: steps.EnterDevice, scope: FunctionScope) -> None:
    """Opens the guard of a device, to the function's end."""
    functions, before = _functions(step.device, scope), scope.saved("device_before")
    _open_device(functions, str(step.device.index), before, scope)


def enter_profile(step: steps.EnterProfile, scope: FunctionScope) -> None:
    """Enters a scope of torch's profilers."""
    texts = map(python_string, (step.name, step.details) if step.details else (step.name,))
    scope.out.open_block(f"with torch.profiler.record_function({', '.join(texts)}):")


def enter_pool(step: steps.EnterPool, scope: FunctionScope) -> None:
    """Enters the process's pool of this name."""
    use = scope.module.runtime("use_memory_pool")
    text = f"{use}(torch, {python_string(step.name)}, {python_string(str(step.device))})"
    scope.out.open_block(f"with {text}:")


def exit_scope(step: steps.ExitScope, scope: FunctionScope) -> None:
    """Ends a block."""
    scope.out.close_block()
