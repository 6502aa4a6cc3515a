"""The rule of each op."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from wrapper_ir.ir import ops
from wrapper_ir_lowering.rules import calls, checks, control, debug, memory, placement, symbolic
from wrapper_ir_lowering.state import FunctionState
from wrapper_ir_lowering.steps import Step

__all__ = ["RULES"]

# Any: each function takes its own op class. A test compares the keys with OPS.
RULES: Mapping[type[ops.OpBase], Callable[[Any, FunctionState], Iterator[Step]]] = {
    ops.AllocStorage: memory.alloc,
    ops.Slot: memory.slot,
    ops.Free: memory.free,
    ops.Drop: memory.drop,
    ops.Copy: memory.copy,
    ops.EnsureAligned: memory.ensure_aligned,
    ops.ResizeStorage: memory.resize_storage,
    ops.SetStorage: memory.set_storage,
    ops.View: memory.view,
    ops.Launch: calls.launch,
    ops.CallExtern: calls.call_extern,
    ops.Unpack: calls.unpack,
    ops.Define: symbolic.define,
    ops.AssertLayout: checks.assert_layout,
    ops.AssertExpr: checks.assert_expr,
    ops.AssertFinite: checks.assert_finite,
    ops.Switch: control.switch,
    ops.WhileLoop: control.while_loop,
    ops.CallSubgraph: control.call_subgraph,
    ops.Return: control.return_,
    ops.RecordEvent: placement.record_event,
    ops.WaitEvent: placement.wait_event,
    ops.SyncEvent: placement.sync_event,
    ops.Barrier: placement.barrier,
    ops.EnterProfile: placement.enter_profile,
    ops.EnterMemoryPool: placement.enter_memory_pool,
    ops.ExitScope: placement.exit_scope,
    ops.CollectiveStart: calls.collective,
    ops.Wait: calls.wait,
    ops.Comment: debug.comment,
    ops.DebugValue: debug.debug_value,
}
