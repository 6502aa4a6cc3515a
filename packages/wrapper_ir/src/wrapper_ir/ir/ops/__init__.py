"""The closed set of ops, one file a family.

`Op` is the union that every consumer must handle completely: with `match` ending in `assert_never`, or with a
table that a test compares with `OPS`. An op's class says everything that is mechanical about it; `wrapper_ir.ir.ops.spec`
reads it.
"""

from __future__ import annotations

from typing import get_args

from wrapper_ir.ir.ops.base import (
    UNKNOWN,
    Arg,
    Args,
    Callee,
    Callees,
    Complex,
    Def,
    Defs,
    KernelName,
    Kwargs,
    OpBase,
    OperatorName,
    OptionalDef,
    Provenance,
    Role,
    Shapes,
    SingleArg,
    Stream,
    SymbolName,
    SymbolNames,
    Use,
    Uses,
)
from wrapper_ir.ir.ops.check import (
    AssertedLayout,
    AssertExpr,
    AssertFinite,
    AssertLayout,
    CheckOp,
    asserted_layouts,
)
from wrapper_ir.ir.ops.collective import CollectiveOp, CollectiveStart, Wait
from wrapper_ir.ir.ops.control import CallSubgraph, ControlOp, Return, Switch, WhileLoop, is_two_way
from wrapper_ir.ir.ops.debug import Comment, DebugMode, DebugOp, DebugPhase, DebugValue
from wrapper_ir.ir.ops.effects import (
    NO_EFFECTS,
    EffectClass,
    EffectContext,
    Effects,
    EffectSpec,
    FunctionSummary,
    ResultOrigin,
    aliases,
    ends,
    fresh,
    has,
    may_alias,
    reads,
    within,
    writes,
)
from wrapper_ir.ir.ops.kernel import CallExtern, KernelOp, Launch, Unpack
from wrapper_ir.ir.ops.memory import (
    AllocPurpose,
    AllocStorage,
    Copy,
    Drop,
    EnsureAligned,
    Free,
    MemoryOp,
    ResizeStorage,
    SetStorage,
    Slot,
    ZeroMode,
)
from wrapper_ir.ir.ops.placement import Barrier, PlacementOp, RecordEvent, SyncEvent, WaitEvent
from wrapper_ir.ir.ops.scope import MAX_SCOPES, EnterMemoryPool, EnterProfile, ExitScope, ScopeOp
from wrapper_ir.ir.ops.spec import (
    FieldSpec,
    OpSet,
    OpSpec,
    Shape,
    describe,
    fields_of,
    is_enum,
    misfit,
    op_spec,
    per_class,
    tag_of,
)
from wrapper_ir.ir.ops.symbolic import Define
from wrapper_ir.ir.ops.view import View, ViewMode

__all__ = [
    "MAX_SCOPES",
    "NO_EFFECTS",
    "OPS",
    "UNKNOWN",
    "AllocPurpose",
    "AllocStorage",
    "Arg",
    "Args",
    "AssertExpr",
    "AssertFinite",
    "AssertLayout",
    "AssertedLayout",
    "Barrier",
    "CallExtern",
    "CallSubgraph",
    "Callee",
    "Callees",
    "CheckOp",
    "CollectiveOp",
    "CollectiveStart",
    "Comment",
    "Complex",
    "ControlOp",
    "Copy",
    "DebugMode",
    "DebugOp",
    "DebugPhase",
    "DebugValue",
    "Def",
    "Define",
    "Defs",
    "Drop",
    "EffectClass",
    "EffectContext",
    "EffectSpec",
    "Effects",
    "EnsureAligned",
    "EnterMemoryPool",
    "EnterProfile",
    "ExitScope",
    "FieldSpec",
    "Free",
    "FunctionSummary",
    "KernelName",
    "KernelOp",
    "Kwargs",
    "Launch",
    "MemoryOp",
    "Op",
    "OpBase",
    "OpSet",
    "OpSpec",
    "OperatorName",
    "OptionalDef",
    "PlacementOp",
    "Provenance",
    "RecordEvent",
    "ResizeStorage",
    "ResultOrigin",
    "Return",
    "Role",
    "ScopeOp",
    "SetStorage",
    "Shape",
    "Shapes",
    "SingleArg",
    "Slot",
    "Stream",
    "Switch",
    "SymbolName",
    "SymbolNames",
    "SyncEvent",
    "Unpack",
    "Use",
    "Uses",
    "View",
    "ViewMode",
    "Wait",
    "WaitEvent",
    "WhileLoop",
    "ZeroMode",
    "aliases",
    "asserted_layouts",
    "describe",
    "ends",
    "fields_of",
    "fresh",
    "has",
    "is_enum",
    "is_two_way",
    "may_alias",
    "misfit",
    "op_spec",
    "per_class",
    "reads",
    "tag_of",
    "within",
    "writes",
]


Op = (
    MemoryOp | View | KernelOp | Define | CheckOp | ControlOp | PlacementOp | ScopeOp | CollectiveOp | DebugOp
)

OPS = OpSet(get_args(Op))
"""The specs of all ops, in the order of the union."""
