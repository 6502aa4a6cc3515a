"""The rule of each op."""

from __future__ import annotations

from collections.abc import Iterator
from typing import assert_never

from wrapper_ir import ir
from wrapper_ir_lowering.rules import calls, checks, control, debug, memory, placement, symbolic
from wrapper_ir_lowering.state import FunctionState
from wrapper_ir_lowering.steps import Step


def steps_of(op: ir.Op, state: FunctionState) -> Iterator[Step]:
    """Returns the steps of an op. mypy reports an op class without a rule."""
    match op:
        case ir.AllocStorage():
            return memory.alloc(op, state)
        case ir.Slot():
            return memory.slot(op, state)
        case ir.Free():
            return memory.free(op, state)
        case ir.Drop():
            return memory.drop(op, state)
        case ir.Copy():
            return memory.copy(op, state)
        case ir.EnsureAligned():
            return memory.ensure_aligned(op, state)
        case ir.ResizeStorage():
            return memory.resize_storage(op, state)
        case ir.SetStorage():
            return memory.set_storage(op, state)
        case ir.View():
            return memory.view(op, state)
        case ir.Launch():
            return calls.launch(op, state)
        case ir.CallExtern():
            return calls.call_extern(op, state)
        case ir.Unpack():
            return calls.unpack(op, state)
        case ir.CollectiveStart():
            return calls.collective(op, state)
        case ir.Wait():
            return calls.wait(op, state)
        case ir.Define():
            return symbolic.define(op, state)
        case ir.AssertLayout():
            return checks.assert_layout(op, state)
        case ir.AssertExpr():
            return checks.assert_expr(op, state)
        case ir.AssertFinite():
            return checks.assert_finite(op, state)
        case ir.Switch():
            return control.switch(op, state)
        case ir.WhileLoop():
            return control.while_loop(op, state)
        case ir.CallSubgraph():
            return control.call_subgraph(op, state)
        case ir.Return():
            return control.return_(op, state)
        case ir.RecordEvent():
            return placement.record_event(op, state)
        case ir.WaitEvent():
            return placement.wait_event(op, state)
        case ir.SyncEvent():
            return placement.sync_event(op, state)
        case ir.Barrier():
            return placement.barrier(op, state)
        case ir.EnterProfile():
            return placement.enter_profile(op, state)
        case ir.EnterMemoryPool():
            return placement.enter_memory_pool(op, state)
        case ir.ExitScope():
            return placement.exit_scope(op, state)
        case ir.Comment():
            return debug.comment(op, state)
        case ir.DebugValue():
            return debug.debug_value(op, state)
        case _:
            assert_never(op)
