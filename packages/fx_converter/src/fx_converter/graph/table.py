"""How each op is converted: one function a class."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from fx_converter.graph import check, control, extern, launch, memory, placement, scopes, symbolic
from fx_converter.graph.scope import FunctionScope
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

__all__ = ["CONVERTERS"]

# Any: each function takes its own op class. A test compares the keys with OPS.
CONVERTERS: Mapping[type[OpBase], Callable[[Any, FunctionScope], None]] = {
    AllocStorage: memory.alloc,
    Slot: memory.slot,
    Free: memory.free,
    Drop: memory.drop,
    Copy: memory.copy,
    EnsureAligned: memory.ensure_aligned,
    ResizeStorage: memory.resize_storage,
    SetStorage: memory.set_storage,
    View: memory.view,
    Launch: launch.launch,
    CallExtern: extern.call_extern,
    Unpack: extern.unpack,
    Define: symbolic.define,
    AssertLayout: check.assert_layout,
    AssertExpr: check.assert_expr,
    AssertFinite: check.assert_finite,
    Switch: control.switch,
    WhileLoop: control.while_loop,
    CallSubgraph: control.call_subgraph,
    Return: control.return_,
    RecordEvent: placement.record_event,
    WaitEvent: placement.wait_event,
    SyncEvent: placement.sync_event,
    Barrier: placement.barrier,
    EnterProfile: scopes.enter_profile,
    EnterMemoryPool: scopes.enter_memory_pool,
    ExitScope: scopes.exit_scope,
    CollectiveStart: extern.collective,
    Wait: extern.wait,
    Comment: check.comment,
    DebugValue: check.debug_value,
}
