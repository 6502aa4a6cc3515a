"""Writes streams, events and profiler scopes. Events of the host are complete when they are recorded."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from cpp_wrapper.sources.scope import FunctionScope
from wrapper_ir import ir
from wrapper_ir.support.quoting import cpp_line_comment, cpp_string
from wrapper_ir_lowering import steps

_QUEUING = (steps.Allocate, steps.Zero, steps.Copy, steps.Launch, steps.CallOperator, steps.StartCollective)


@contextmanager
def on_stream(step: steps.Step, scope: FunctionScope) -> Iterator[None]:
    """Opens a block on the step's stream, unless that is the current stream of the call."""
    if not isinstance(step, _QUEUING) or step.stream is None:
        yield
        return
    scope.line("{")
    with scope.indented():
        scope.line(f"const OnStream on(run, {_stream(step.stream, scope)});")
        yield
    scope.line("}")


def _stream(stream: steps.Stream, scope: FunctionScope) -> int:
    """Returns the program's number of a stream."""
    scope.on_gpu(stream.device)
    return scope.module.streams[stream] if stream.number else 0


def enter_device(step: steps.EnterDevice, scope: FunctionScope) -> None:
    """Checks the device only: the runtime makes the program's device current."""
    scope.on_gpu(step.device)


def barrier(step: steps.Barrier, scope: FunctionScope) -> None:
    """Writes a comment: calls keep their order."""
    scope.line("// barrier")


def record_event(step: steps.RecordEvent, scope: FunctionScope) -> None:
    """Writes an event; on the host a comment, since nothing is queued."""
    if step.on_host:
        _happened(f"event {step.result.name}", scope)
        return
    scope.events[step.result] = name = scope.module.names(step.result.name)
    scope.line(f"{name}.record(run, {_stream(step.stream, scope)});")


def wait_event(step: steps.WaitEvent, scope: FunctionScope) -> None:
    """Writes a wait of the stream; the host continues."""
    if step.on_host:
        _happened(f"wait for {step.event.name}", scope)
        return
    scope.line(f"{_event(step.event, scope)}.wait(run, {_stream(step.stream, scope)});")


def sync_event(step: steps.SyncEvent, scope: FunctionScope) -> None:
    """Writes a wait of the host."""
    if step.on_host or scope.module.gpu is None:
        _happened(f"synchronise with {step.event.name}", scope)
        return
    scope.line(f"{_event(step.event, scope)}.synchronize();")


def _event(event: ir.Value[ir.OpaqueType], scope: FunctionScope) -> str:
    """Returns the variable of an event. Raises EmitError CPP503 for one that another function recorded."""
    if event not in scope.events:
        raise scope.error("CPP503", f"event %{event.name} of another function")
    return scope.events[event]


def _happened(text: str, scope: FunctionScope) -> None:
    scope.line(f"// {cpp_line_comment(text)}: it has happened already")


def enter_profile(step: steps.EnterProfile, scope: FunctionScope) -> None:
    """Writes torch's operator that opens a scope; after an error, the scope ends with its handle."""
    handle = f"t[{scope.slot('profile')}]"
    scope.profiles.append(handle)
    texts = ", ".join(f"{cpp_string(text)}, {len(text.encode())}" for text in (step.name, step.details))
    scope.line(f"enter_profile({handle}, {texts});")


def enter_pool(step: steps.EnterPool, scope: FunctionScope) -> None:
    """Raises EmitError CPP501: torch's C functions have no memory pools."""
    hint = "emit the program with py_wrapper or fx_converter"
    raise scope.error("CPP501", "this edition does not write memory pools in C++", hint)


def exit_scope(step: steps.ExitScope, scope: FunctionScope) -> None:
    """Closes the innermost profiler scope; other scopes do not exist."""
    scope.line(f"exit_profile({scope.profiles.pop()});")
