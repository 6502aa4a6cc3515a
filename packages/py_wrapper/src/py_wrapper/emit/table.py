"""How each op is written: one function a class."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from py_wrapper.emit import calls, checks, control, memory, scopes, streams
from py_wrapper.emit.scope import FunctionScope
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

__all__ = ["WRITERS"]

# Any: each function takes its own op class. A test compares the keys with OPS.
WRITERS: Mapping[type[OpBase], Callable[[Any, FunctionScope], None]] = {
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
    Define: checks.define,
    AssertLayout: checks.assert_layout,
    AssertExpr: checks.assert_expr,
    AssertFinite: checks.assert_finite,
    Switch: control.switch,
    WhileLoop: control.while_loop,
    CallSubgraph: control.call_subgraph,
    Return: control.return_,
    RecordEvent: streams.record_event,
    WaitEvent: streams.wait_event,
    SyncEvent: streams.sync_event,
    Barrier: streams.barrier,
    EnterProfile: scopes.enter_profile,
    EnterMemoryPool: scopes.enter_memory_pool,
    ExitScope: scopes.exit_scope,
    CollectiveStart: calls.collective,
    Wait: calls.wait,
    Comment: checks.comment,
    DebugValue: checks.debug_value,
}
