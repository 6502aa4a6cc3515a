"""Where work runs: devices, streams, events and scopes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from fx_converter import targets
from fx_converter.graph.scope import FunctionScope
from wrapper_ir_lowering import steps


def enter_device(step: steps.EnterDevice, scope: FunctionScope) -> None:
    """A node that makes the program's device the current one, for launches and for allocators that take no device."""
    scope.device = scope.call(targets.enter_device, str(step.device))


def exit_device(scope: FunctionScope) -> None:
    """The node that ends it, where there is one."""
    if scope.device is not None:
        scope.call(targets.exit_device, scope.device)


@contextmanager
def on_stream(
    step: steps.Allocate
    | steps.Zero
    | steps.Copy
    | steps.Launch
    | steps.CallOperator
    | steps.StartCollective,
    scope: FunctionScope,
) -> Iterator[None]:
    """Between two nodes that make the step's stream the current one, unless that is the caller's current stream."""
    stream = step.stream
    if stream is None:
        yield
        return
    context = scope.call(targets.enter_stream, str(stream.device), stream.number)
    yield
    scope.call(targets.exit_stream, context)


def record_event(step: steps.RecordEvent, scope: FunctionScope) -> None:
    """An event of torch's."""
    scope.bind(step.result, targets.record_event, str(step.stream.device), step.stream.number)


def wait_event(step: steps.WaitEvent, scope: FunctionScope) -> None:
    """The stream waits, the host goes on."""
    stream = step.stream
    scope.call(targets.wait_event, scope.value(step.event), str(stream.device), stream.number)


def sync_event(step: steps.SyncEvent, scope: FunctionScope) -> None:
    """The host waits."""
    scope.call(targets.sync_event, scope.value(step.event))


def barrier(step: steps.Barrier, scope: FunctionScope) -> None:
    """A call that torch keeps, and keeps in order with other calls that have effects."""
    scope.call(targets.barrier)


def enter_profile(step: steps.EnterProfile, scope: FunctionScope) -> None:
    """Torch's own scope of its profilers."""
    scope.entered.append(scope.call(targets.enter_profile, step.name, step.details))


def enter_pool(step: steps.EnterPool, scope: FunctionScope) -> None:
    """The process's pool of this name."""
    scope.entered.append(scope.call(targets.enter_memory_pool, step.name, str(step.device)))


def exit_scope(step: steps.ExitScope, scope: FunctionScope) -> None:
    """The node that ends the innermost one."""
    if not scope.entered:
        raise scope.invalid("a scope ends where none is open")
    scope.call(targets.exit_scope, scope.entered.pop())
