"""Devices, streams, events and scopes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from fx_converter import targets
from fx_converter.graph.scope import FunctionScope
from wrapper_ir_lowering import steps


def enter_device(step: steps.EnterDevice, scope: FunctionScope) -> None:
    """Adds a node that makes the program's device current, for launches and for allocators without a device
    argument."""
    scope.device = scope.call(targets.enter_device, str(step.device))


def exit_device(scope: FunctionScope) -> None:
    """Adds the node that leaves the program's device, if it was entered."""
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
    """Encloses nodes in two that make the step's stream current, unless that is the caller's stream."""
    stream = step.stream
    if stream is None:
        yield
        return
    context = scope.call(targets.enter_stream, str(stream.device), stream.number)
    yield
    scope.call(targets.exit_stream, context)


def record_event(step: steps.RecordEvent, scope: FunctionScope) -> None:
    """Records an event of torch."""
    scope.bind(step.result, targets.record_event, str(step.stream.device), step.stream.number)


def wait_event(step: steps.WaitEvent, scope: FunctionScope) -> None:
    """Makes the stream wait; the host continues."""
    stream = step.stream
    scope.call(targets.wait_event, scope.value(step.event), str(stream.device), stream.number)


def sync_event(step: steps.SyncEvent, scope: FunctionScope) -> None:
    """Makes the host wait."""
    scope.call(targets.sync_event, scope.value(step.event))


def barrier(step: steps.Barrier, scope: FunctionScope) -> None:
    """Adds a call that torch keeps in order with other calls that have effects."""
    scope.call(targets.barrier)


def enter_profile(step: steps.EnterProfile, scope: FunctionScope) -> None:
    """Enters a scope of torch's profilers."""
    scope.entered.append(scope.call(targets.enter_profile, step.name, step.details))


def enter_pool(step: steps.EnterPool, scope: FunctionScope) -> None:
    """Enters the process's pool of this name."""
    scope.entered.append(scope.call(targets.enter_memory_pool, step.name, str(step.device)))


def exit_scope(step: steps.ExitScope, scope: FunctionScope) -> None:
    """Adds the node that leaves the innermost scope."""
    if not scope.entered:
        raise scope.invalid("a scope ends, but none is open")
    scope.call(targets.exit_scope, scope.entered.pop())
