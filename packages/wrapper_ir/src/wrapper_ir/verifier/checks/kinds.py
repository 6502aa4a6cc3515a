"""Which kinds of values the fields of each op take and make; call arguments are judged by their callee."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import attrgetter
from types import MappingProxyType
from typing import Any

from wrapper_ir.ops import (
    AllocStorage,
    AssertExpr,
    AssertFinite,
    AssertLayout,
    CallExtern,
    CallSubgraph,
    CollectiveStart,
    Comment,
    Conditional,
    Copy,
    DebugValue,
    Define,
    Drop,
    EnsureAligned,
    Free,
    Launch,
    OpBase,
    RecordEvent,
    ResizeStorage,
    Return,
    SetStorage,
    SyncEvent,
    Unpack,
    View,
    Wait,
    WaitEvent,
    WhileLoop,
)
from wrapper_ir.types import OpaqueType, ScalarType, StorageType, TensorType, TupleType
from wrapper_ir.values import Value

__all__ = ["KINDS", "Kinds", "describe"]

# Any: a field is a value, a tuple of values or None
Kinds = tuple[tuple[str, Callable[[OpBase], Any], tuple[type, ...]], ...]

_TENSOR = (TensorType,)
_STORED = (StorageType, TensorType)
_EVENT = (OpaqueType,)
_RESULT = (TensorType, ScalarType, OpaqueType)


def _use(field: str, *kinds: type) -> tuple[str, Callable[[OpBase], Any], tuple[type, ...]]:  # Any: as above
    return "WIR013", attrgetter(field), kinds


def _def(field: str, *kinds: type) -> tuple[str, Callable[[OpBase], Any], tuple[type, ...]]:  # Any: as above
    return "WIR014", attrgetter(field), kinds


KINDS: Mapping[type[OpBase], Kinds] = MappingProxyType(
    {
        AllocStorage: (_def("result", StorageType),),
        Free: (_use("storage", *_STORED),),
        Drop: (_use("value", *_STORED, TupleType, *_RESULT),),
        Copy: (_use("dst", *_TENSOR), _use("src", *_TENSOR)),
        EnsureAligned: (_use("source", *_TENSOR), _def("result", *_TENSOR)),
        ResizeStorage: (_use("target", *_TENSOR),),
        SetStorage: (_use("target", *_TENSOR), _use("source", *_TENSOR)),
        View: (_use("source", *_STORED), _def("result", *_TENSOR)),
        Launch: (),
        CallExtern: (_def("result", TupleType, *_RESULT),),
        Unpack: (_use("source", TupleType), _def("result", TupleType, *_RESULT)),
        Define: (),
        AssertLayout: (_use("tensor", *_TENSOR),),
        AssertExpr: (),
        AssertFinite: (_use("tensor", *_TENSOR),),
        Conditional: (_def("results", *_RESULT),),
        WhileLoop: (_def("results", *_RESULT),),
        CallSubgraph: (_def("results", *_RESULT),),
        Return: (),
        RecordEvent: (_def("result", *_EVENT),),
        WaitEvent: (_use("event", *_EVENT),),
        SyncEvent: (_use("event", *_EVENT),),
        CollectiveStart: (_def("results", *_TENSOR),),
        Wait: (_use("source", *_TENSOR), _def("result", *_TENSOR)),
        Comment: (),
        DebugValue: (_use("values", TensorType, ScalarType),),
    }
)
"""By op class, complete: (code, field, allowed types)."""

_NAMES: tuple[tuple[type, str], ...] = (
    (StorageType, "a storage"),
    (TensorType, "a tensor"),
    (ScalarType, "a number"),
    (TupleType, "a nested result"),
)


def describe(value: Value) -> str:
    """What kind of value it is, for messages."""
    if isinstance(value.type, OpaqueType):
        return f"a handle ({value.type.kind.value})"
    return next((name for cls, name in _NAMES if isinstance(value.type, cls)), "of an unknown type")
