"""The rule of each op."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from wrapper_ir.lowering.rules import calls, checks, control, debug, memory, placement, symbolic
from wrapper_ir.lowering.state import FunctionState
from wrapper_ir.lowering.steps import Step
from wrapper_ir.ops import (
    AllocStorage,
    AssertExpr,
    AssertFinite,
    AssertLayout,
    Barrier,
    CallExtern,
    CallSubgraph,
    CollectiveStart,
    Comment,
    Copy,
    DebugValue,
    Define,
    Drop,
    EnsureAligned,
    EnterMemoryPool,
    EnterProfile,
    ExitScope,
    Free,
    Launch,
    OpBase,
    RecordEvent,
    ResizeStorage,
    Return,
    SetStorage,
    Slot,
    Switch,
    SyncEvent,
    Unpack,
    View,
    Wait,
    WaitEvent,
    WhileLoop,
)

__all__ = ["RULES"]

# Any: each function takes its own op class. A test compares the keys with OPS.
RULES: Mapping[type[OpBase], Callable[[Any, FunctionState], Iterator[Step]]] = {
    AllocStorage: memory.alloc,
    Slot: memory.slot,
    Free: memory.free,
    Drop: memory.drop,
    Copy: memory.copy,
    EnsureAligned: memory.ensure_aligned,
    ResizeStorage: memory.resize_storage,
    SetStorage: memory.set_storage,
    View: memory.view,
    Launch: calls.launch,
    CallExtern: calls.call_extern,
    Unpack: calls.unpack,
    Define: symbolic.define,
    AssertLayout: checks.assert_layout,
    AssertExpr: checks.assert_expr,
    AssertFinite: checks.assert_finite,
    Switch: control.switch,
    WhileLoop: control.while_loop,
    CallSubgraph: control.call_subgraph,
    Return: control.return_,
    RecordEvent: placement.record_event,
    WaitEvent: placement.wait_event,
    SyncEvent: placement.sync_event,
    Barrier: placement.barrier,
    EnterProfile: placement.enter_profile,
    EnterMemoryPool: placement.enter_memory_pool,
    ExitScope: placement.exit_scope,
    CollectiveStart: calls.collective,
    Wait: calls.wait,
    Comment: debug.comment,
    DebugValue: debug.debug_value,
}
