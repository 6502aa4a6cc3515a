"""The functions of an emitter: a protocol for each family of steps, and the dispatch over all steps.

A module implements a protocol: `Writers(memory=my_emitter.memory, ...)`. mypy then reports a missing
function, and one for another class of step. For a new step class, mypy reports `write_step`, then each
emitter.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar, assert_never

from wrapper_ir_lowering import steps
from wrapper_ir_lowering.steps import Step

S = TypeVar("S", contravariant=True)
"""The scope of an emitter: its state while it writes a function."""
T = TypeVar("T")


class MemoryWriter(Protocol[S]):
    """Writes storages, tensors over them, and the ends of both."""

    def allocate(self, step: steps.Allocate, scope: S, /) -> None: ...
    def zero(self, step: steps.Zero, scope: S, /) -> None: ...
    def resize_block(self, step: steps.ResizeBlock, scope: S, /) -> None: ...
    def begin_slot(self, step: steps.BeginSlot, scope: S, /) -> None: ...
    def same(self, step: steps.Same, scope: S, /) -> None: ...
    def window(self, step: steps.Window, scope: S, /) -> None: ...
    def byte_window(self, step: steps.ByteWindow, scope: S, /) -> None: ...
    def end_storage(self, step: steps.EndStorage, scope: S, /) -> None: ...
    def end_names(self, step: steps.EndNames, scope: S, /) -> None: ...
    def copy(self, step: steps.Copy, scope: S, /) -> None: ...
    def align(self, step: steps.Align, scope: S, /) -> None: ...
    def resize_storage(self, step: steps.ResizeStorage, scope: S, /) -> None: ...
    def set_storage(self, step: steps.SetStorage, scope: S, /) -> None: ...


class CallWriter(Protocol[S]):
    """Writes kernel launches and unpacked results."""

    def launch(self, step: steps.Launch, scope: S, /) -> None: ...
    def unpack(self, step: steps.Unpack, scope: S, /) -> None: ...


class OperatorWriter(Protocol[S]):
    """Writes library operators and collectives."""

    def call_operator(self, step: steps.CallOperator, scope: S, /) -> None: ...
    def start_collective(self, step: steps.StartCollective, scope: S, /) -> None: ...
    def wait(self, step: steps.Wait, scope: S, /) -> None: ...


class CheckWriter(Protocol[S]):
    """Writes run-time checks."""

    def check_inputs(self, step: steps.CheckInputs, scope: S, /) -> None: ...
    def check_storages(self, step: steps.CheckStorages, scope: S, /) -> None: ...
    def check_groups(self, step: steps.CheckGroups, scope: S, /) -> None: ...
    def check_apart(self, step: steps.CheckApart, scope: S, /) -> None: ...
    def check_result(self, step: steps.CheckResult, scope: S, /) -> None: ...
    def check_layout(self, step: steps.CheckLayout, scope: S, /) -> None: ...
    def check_alignment(self, step: steps.CheckAlignment, scope: S, /) -> None: ...
    def check_condition(self, step: steps.CheckCondition, scope: S, /) -> None: ...
    def check_finite(self, step: steps.CheckFinite, scope: S, /) -> None: ...


class SymbolicWriter(Protocol[S]):
    """Writes symbols."""

    def define(self, step: steps.Define, scope: S, /) -> None: ...


class DebugWriter(Protocol[S]):
    """Writes debug values and comments."""

    def show_line(self, step: steps.ShowLine, scope: S, /) -> None: ...
    def show_value(self, step: steps.ShowValue, scope: S, /) -> None: ...
    def save_value(self, step: steps.SaveValue, scope: S, /) -> None: ...
    def comment(self, step: steps.Comment, scope: S, /) -> None: ...


class ControlWriter(Protocol[S]):
    """Writes calls, branches, loops and returns."""

    def call(self, step: steps.Call, scope: S, /) -> None: ...
    def switch(self, step: steps.Switch, scope: S, /) -> None: ...
    def loop(self, step: steps.Loop, scope: S, /) -> None: ...
    def return_(self, step: steps.Return, scope: S, /) -> None: ...


class PlacementWriter(Protocol[S]):
    """Writes devices, streams, events and scopes."""

    def enter_device(self, step: steps.EnterDevice, scope: S, /) -> None: ...
    def record_event(self, step: steps.RecordEvent, scope: S, /) -> None: ...
    def wait_event(self, step: steps.WaitEvent, scope: S, /) -> None: ...
    def sync_event(self, step: steps.SyncEvent, scope: S, /) -> None: ...
    def barrier(self, step: steps.Barrier, scope: S, /) -> None: ...
    def enter_profile(self, step: steps.EnterProfile, scope: S, /) -> None: ...
    def enter_pool(self, step: steps.EnterPool, scope: S, /) -> None: ...
    def exit_scope(self, step: steps.ExitScope, scope: S, /) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Writers(Generic[T]):
    """The modules of an emitter, one per family of steps."""

    memory: MemoryWriter[T]
    calls: CallWriter[T]
    operators: OperatorWriter[T]
    checks: CheckWriter[T]
    symbolic: SymbolicWriter[T]
    debug: DebugWriter[T]
    control: ControlWriter[T]
    placement: PlacementWriter[T]


def write_step(step: Step, scope: T, writers: Writers[T]) -> None:
    """Writes a step with the function of its class."""
    match step:
        case steps.Allocate():
            writers.memory.allocate(step, scope)
        case steps.Zero():
            writers.memory.zero(step, scope)
        case steps.ResizeBlock():
            writers.memory.resize_block(step, scope)
        case steps.BeginSlot():
            writers.memory.begin_slot(step, scope)
        case steps.Same():
            writers.memory.same(step, scope)
        case steps.Window():
            writers.memory.window(step, scope)
        case steps.ByteWindow():
            writers.memory.byte_window(step, scope)
        case steps.EndStorage():
            writers.memory.end_storage(step, scope)
        case steps.EndNames():
            writers.memory.end_names(step, scope)
        case steps.Copy():
            writers.memory.copy(step, scope)
        case steps.Align():
            writers.memory.align(step, scope)
        case steps.ResizeStorage():
            writers.memory.resize_storage(step, scope)
        case steps.SetStorage():
            writers.memory.set_storage(step, scope)
        case steps.Launch():
            writers.calls.launch(step, scope)
        case steps.Unpack():
            writers.calls.unpack(step, scope)
        case steps.CallOperator():
            writers.operators.call_operator(step, scope)
        case steps.StartCollective():
            writers.operators.start_collective(step, scope)
        case steps.Wait():
            writers.operators.wait(step, scope)
        case steps.CheckInputs():
            writers.checks.check_inputs(step, scope)
        case steps.CheckStorages():
            writers.checks.check_storages(step, scope)
        case steps.CheckGroups():
            writers.checks.check_groups(step, scope)
        case steps.CheckApart():
            writers.checks.check_apart(step, scope)
        case steps.CheckResult():
            writers.checks.check_result(step, scope)
        case steps.CheckLayout():
            writers.checks.check_layout(step, scope)
        case steps.CheckAlignment():
            writers.checks.check_alignment(step, scope)
        case steps.CheckCondition():
            writers.checks.check_condition(step, scope)
        case steps.CheckFinite():
            writers.checks.check_finite(step, scope)
        case steps.Define():
            writers.symbolic.define(step, scope)
        case steps.ShowLine():
            writers.debug.show_line(step, scope)
        case steps.ShowValue():
            writers.debug.show_value(step, scope)
        case steps.SaveValue():
            writers.debug.save_value(step, scope)
        case steps.Comment():
            writers.debug.comment(step, scope)
        case steps.Call():
            writers.control.call(step, scope)
        case steps.Switch():
            writers.control.switch(step, scope)
        case steps.Loop():
            writers.control.loop(step, scope)
        case steps.Return():
            writers.control.return_(step, scope)
        case steps.EnterDevice():
            writers.placement.enter_device(step, scope)
        case steps.RecordEvent():
            writers.placement.record_event(step, scope)
        case steps.WaitEvent():
            writers.placement.wait_event(step, scope)
        case steps.SyncEvent():
            writers.placement.sync_event(step, scope)
        case steps.Barrier():
            writers.placement.barrier(step, scope)
        case steps.EnterProfile():
            writers.placement.enter_profile(step, scope)
        case steps.EnterPool():
            writers.placement.enter_pool(step, scope)
        case steps.ExitScope():
            writers.placement.exit_scope(step, scope)
        case _:
            assert_never(step)
