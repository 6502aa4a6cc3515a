"""How each step is converted: one function a class."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from fx_converter.graph import calls, checks, control, debug, memory, placement, symbolic
from fx_converter.graph.scope import FunctionScope
from wrapper_ir_lowering import steps
from wrapper_ir_lowering.steps import StepBase

__all__ = ["CONVERTERS"]

# Any: each function takes its own class of steps. A test compares the keys with STEPS.
CONVERTERS: Mapping[type[StepBase], Callable[[Any, FunctionScope], None]] = {
    steps.Allocate: memory.allocate,
    steps.Zero: memory.zero,
    steps.ResizeBlock: memory.resize_block,
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
    steps.Launch: calls.launch,
    steps.CallOperator: calls.call_operator,
    steps.StartCollective: calls.start_collective,
    steps.Wait: calls.wait,
    steps.Unpack: calls.unpack,
    steps.CheckInputs: checks.check_inputs,
    steps.CheckStorages: checks.check_storages,
    steps.CheckGroups: checks.check_groups,
    steps.CheckLayout: checks.check_layout,
    steps.CheckResult: checks.check_result,
    steps.CheckAlignment: checks.check_alignment,
    steps.CheckCondition: checks.check_condition,
    steps.CheckFinite: checks.check_finite,
    steps.Define: symbolic.define,
    steps.ShowLine: debug.show_line,
    steps.ShowValue: debug.show_value,
    steps.SaveValue: debug.save_value,
    steps.Comment: debug.comment,
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
