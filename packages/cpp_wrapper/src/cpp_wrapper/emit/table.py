"""How each step is written: one function a class."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from cpp_wrapper.emit import calls, checks, control, memory, operators, symbolic
from cpp_wrapper.emit.refusals import refuse
from cpp_wrapper.emit.scope import FunctionScope
from wrapper_ir.lowering import steps
from wrapper_ir.lowering.steps import StepBase

__all__ = ["WRITERS"]

# Any: each function takes its own class of steps. A test compares the keys with STEPS.
WRITERS: Mapping[type[StepBase], Callable[[Any, FunctionScope], None]] = {
    steps.Allocate: memory.allocate,
    steps.Zero: memory.zero,
    steps.BeginSlot: memory.begin_slot,
    steps.Same: memory.same,
    steps.Window: memory.window,
    steps.ByteWindow: memory.byte_window,
    steps.EndStorage: memory.end_storage,
    steps.EndNames: memory.end_names,
    steps.Copy: memory.copy,
    steps.Align: memory.align,
    steps.ResizeStorage: refuse("the resizing of storages"),
    steps.SetStorage: refuse("tensors that get another storage"),
    steps.Launch: calls.launch,
    steps.CallOperator: operators.call_operator,
    steps.StartCollective: refuse("collectives"),
    steps.Wait: refuse("collectives"),
    steps.Unpack: calls.unpack,
    steps.CheckInputs: checks.check_inputs,
    steps.CheckGroups: refuse("collectives"),
    steps.CheckLayout: checks.check_layout,
    steps.CheckAlignment: checks.check_alignment,
    steps.CheckCondition: checks.check_condition,
    steps.CheckFinite: refuse("checks for NaN and infinity"),
    steps.Define: symbolic.define,
    steps.ShowValue: refuse("debug values"),
    steps.Comment: symbolic.comment,
    steps.Call: refuse("calls of functions"),
    steps.Switch: refuse("conditionals"),
    steps.Loop: refuse("loops"),
    steps.Return: control.return_,
    steps.EnterDevice: refuse("programs for other devices than the CPU"),
    steps.RecordEvent: refuse("events"),
    steps.WaitEvent: refuse("events"),
    steps.SyncEvent: refuse("events"),
    steps.Barrier: refuse("barriers"),
    steps.EnterProfile: refuse("profiler scopes"),
    steps.EnterPool: refuse("memory pools"),
    steps.ExitScope: refuse("scopes"),
}
