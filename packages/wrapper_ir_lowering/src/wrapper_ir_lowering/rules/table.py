"""The rule of each op."""

from __future__ import annotations

from collections.abc import Iterator
from typing import assert_never

from wrapper_ir.ir import ops
from wrapper_ir_lowering.rules import calls, checks, control, debug, memory, placement, symbolic
from wrapper_ir_lowering.state import FunctionState
from wrapper_ir_lowering.steps import Step


def steps_of(op: ops.Op, state: FunctionState) -> Iterator[Step]:
    """The steps that an op becomes. mypy names an op class that has no rule here."""
    match op:
        case ops.AllocStorage():
            return memory.alloc(op, state)
        case ops.Slot():
            return memory.slot(op, state)
        case ops.Free():
            return memory.free(op, state)
        case ops.Drop():
            return memory.drop(op, state)
        case ops.Copy():
            return memory.copy(op, state)
        case ops.EnsureAligned():
            return memory.ensure_aligned(op, state)
        case ops.ResizeStorage():
            return memory.resize_storage(op, state)
        case ops.SetStorage():
            return memory.set_storage(op, state)
        case ops.View():
            return memory.view(op, state)
        case ops.Launch():
            return calls.launch(op, state)
        case ops.CallExtern():
            return calls.call_extern(op, state)
        case ops.Unpack():
            return calls.unpack(op, state)
        case ops.CollectiveStart():
            return calls.collective(op, state)
        case ops.Wait():
            return calls.wait(op, state)
        case ops.Define():
            return symbolic.define(op, state)
        case ops.AssertLayout():
            return checks.assert_layout(op, state)
        case ops.AssertExpr():
            return checks.assert_expr(op, state)
        case ops.AssertFinite():
            return checks.assert_finite(op, state)
        case ops.Switch():
            return control.switch(op, state)
        case ops.WhileLoop():
            return control.while_loop(op, state)
        case ops.CallSubgraph():
            return control.call_subgraph(op, state)
        case ops.Return():
            return control.return_(op, state)
        case ops.RecordEvent():
            return placement.record_event(op, state)
        case ops.WaitEvent():
            return placement.wait_event(op, state)
        case ops.SyncEvent():
            return placement.sync_event(op, state)
        case ops.Barrier():
            return placement.barrier(op, state)
        case ops.EnterProfile():
            return placement.enter_profile(op, state)
        case ops.EnterMemoryPool():
            return placement.enter_memory_pool(op, state)
        case ops.ExitScope():
            return placement.exit_scope(op, state)
        case ops.Comment():
            return debug.comment(op, state)
        case ops.DebugValue():
            return debug.debug_value(op, state)
        case _:
            assert_never(op)
