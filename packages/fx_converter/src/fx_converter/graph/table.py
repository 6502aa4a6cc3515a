"""How each step is converted: one function a class."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from fx_converter.graph import check, control, extern, launch, memory, placement, symbolic
from fx_converter.graph.scope import FunctionScope
from wrapper_ir.lowering import steps
from wrapper_ir.lowering.steps import StepBase

__all__ = ["CONVERTERS"]

# Any: each function takes its own class of steps. A test compares the keys with STEPS.
CONVERTERS: Mapping[type[StepBase], Callable[[Any, FunctionScope], None]] = {
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
    steps.ResizeStorage: memory.resize_storage,
    steps.SetStorage: memory.set_storage,
    steps.Launch: launch.launch,
    steps.CallOperator: extern.call_operator,
    steps.StartCollective: extern.start_collective,
    steps.Wait: extern.wait,
    steps.Unpack: extern.unpack,
    steps.CheckInputs: check.check_inputs,
    steps.CheckGroups: check.check_groups,
    steps.CheckLayout: check.check_layout,
    steps.CheckAlignment: check.check_alignment,
    steps.CheckCondition: check.check_condition,
    steps.CheckFinite: check.check_finite,
    steps.Define: symbolic.define,
    steps.ShowValue: check.show_value,
    steps.Comment: check.comment,
    steps.Call: control.call,
    steps.Switch: control.switch,
    steps.Loop: control.loop,
    steps.Return: control.return_,
    steps.EnterDevice: placement.enter_device,
    steps.RecordEvent: placement.record_event,
    steps.WaitEvent: placement.wait_event,
    steps.SyncEvent: placement.sync_event,
    steps.Barrier: placement.barrier,
    steps.EnterProfile: placement.enter_profile,
    steps.EnterPool: placement.enter_pool,
    steps.ExitScope: placement.exit_scope,
}
