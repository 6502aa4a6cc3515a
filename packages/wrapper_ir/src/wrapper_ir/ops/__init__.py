"""The closed set of ops, one file a family.

`Op` is the union that every consumer must handle completely: with `match` ending in `assert_never`, or with a
table that a test compares with `OP_CLASSES`.
"""

from __future__ import annotations

from typing import get_args

from wrapper_ir.ops.base import UNKNOWN, Arg, Complex, OpBase, Provenance, Role
from wrapper_ir.ops.check import AssertExpr, AssertFinite, AssertLayout
from wrapper_ir.ops.collective import CollectiveStart, Wait
from wrapper_ir.ops.control import CallSubgraph, Conditional, Return, WhileLoop
from wrapper_ir.ops.debug import Comment, DebugMode, DebugValue
from wrapper_ir.ops.kernel import CallExtern, Launch, Unpack
from wrapper_ir.ops.memory import (
    AllocPurpose,
    AllocStorage,
    Copy,
    Drop,
    EnsureAligned,
    Free,
    ResizeStorage,
    SetStorage,
    ZeroMode,
)
from wrapper_ir.ops.placement import RecordEvent, SyncEvent, WaitEvent
from wrapper_ir.ops.symbolic import Define
from wrapper_ir.ops.view import View, ViewMode

__all__ = [
    "OP_CLASSES",
    "UNKNOWN",
    "AllocPurpose",
    "AllocStorage",
    "Arg",
    "AssertExpr",
    "AssertFinite",
    "AssertLayout",
    "CallExtern",
    "CallSubgraph",
    "CollectiveStart",
    "Comment",
    "Complex",
    "Conditional",
    "Copy",
    "DebugMode",
    "DebugValue",
    "Define",
    "Drop",
    "EnsureAligned",
    "Free",
    "Launch",
    "Op",
    "OpBase",
    "Provenance",
    "RecordEvent",
    "ResizeStorage",
    "Return",
    "Role",
    "SetStorage",
    "SyncEvent",
    "Unpack",
    "View",
    "ViewMode",
    "Wait",
    "WaitEvent",
    "WhileLoop",
    "ZeroMode",
]

Op = (
    AllocStorage
    | Free
    | Drop
    | Copy
    | EnsureAligned
    | ResizeStorage
    | SetStorage
    | View
    | Launch
    | CallExtern
    | Unpack
    | Define
    | AssertLayout
    | AssertExpr
    | AssertFinite
    | Conditional
    | WhileLoop
    | CallSubgraph
    | Return
    | RecordEvent
    | WaitEvent
    | SyncEvent
    | CollectiveStart
    | Wait
    | Comment
    | DebugValue
)

OP_CLASSES: tuple[type[OpBase], ...] = get_args(Op)
