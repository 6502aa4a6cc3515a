"""Decides whether an argument fits the type that an operator's schema declares.

Lenient if the library converts arguments: a number fits a tensor or a list, and anything fits an unknown
type.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from wrapper_ir import ir
from wrapper_ir.expr import Expr, SymKind

_LIST = re.compile(r"(.*)\[\d*\]")


def fits(arg: ir.Arg, declared: str) -> bool:
    """Returns whether `arg` may be passed for a schema type `declared` (`Tensor`, `SymInt[]`, `float?`)."""
    if declared == "Tensor":
        return ir.is_tensor(arg) or _is_opaque(arg, ir.OpaqueKind.PACKED) or _is_scalar(arg)
    if declared.endswith("?"):
        return arg is None or fits(arg, declared[:-1])
    element = _LIST.fullmatch(declared)
    if element is not None:
        if isinstance(arg, tuple):
            return all(fits(item, element[1]) for item in arg)
        return declared[-2] != "[" and fits(arg, element[1]) if _is_number(arg) else _is_nested(arg)
    if declared == "Generator":
        return _is_opaque(arg, ir.OpaqueKind.GENERATOR)
    if declared not in _TAKES:
        return not ir.is_storage(arg)
    classes, kinds = _TAKES[declared]
    return isinstance(arg, classes) or _kind(arg) in kinds


def _kind(arg: ir.Arg) -> SymKind | None:
    match arg:
        case Expr(kind=kind) | ir.Value(type=ir.ScalarType(kind)):
            return kind
        case _:
            return None


def _is_number(arg: ir.Arg) -> bool:
    return _kind(arg) is not None


def _is_scalar(arg: ir.Arg) -> bool:
    return isinstance(arg, ir.Complex) or _is_number(arg)


def _is_nested(arg: ir.Arg) -> bool:
    """Returns whether a value may be passed as a whole list: a nested result or a handle."""
    match arg:
        case ir.Value(type=ir.TupleType() | ir.OpaqueType()):
            return True
        case _:
            return False


def _is_opaque(arg: ir.Arg, kind: ir.OpaqueKind) -> bool:
    match arg:
        case ir.Value(type=ir.OpaqueType(kind=own)):
            return own is kind
        case _:
            return False


_INT, _NUMBER = (SymKind.INT, SymKind.BOOL), tuple(SymKind)
_TAKES: Mapping[str, tuple[tuple[type, ...], tuple[SymKind, ...]]] = {
    "int": ((), _INT),
    "SymInt": ((), _INT),
    "bool": ((), (SymKind.BOOL,)),
    "SymBool": ((), (SymKind.BOOL,)),
    "float": ((), _NUMBER),
    "SymFloat": ((), _NUMBER),
    "Scalar": ((ir.Complex,), _NUMBER),
    "number": ((ir.Complex,), _NUMBER),
    "str": ((str,), ()),
    "ScalarType": ((ir.DType,), (SymKind.INT,)),
    "Device": ((ir.Device, str), ()),
    "Layout": ((ir.Layout,), (SymKind.INT,)),
    "MemoryFormat": ((ir.MemoryFormat,), (SymKind.INT,)),
}
"""Classes of literals, and kinds of numbers, that fit a type of schemas."""


def result_kinds(declared: str) -> tuple[type, ...] | None:
    """The classes of IR types that a return of schema type `declared` may have; None if unknown."""
    base = declared.removesuffix("?")
    if base == "Tensor":
        return (ir.TensorType,)
    if base in ("int", "SymInt", "float", "SymFloat", "bool", "SymBool", "Scalar", "number"):
        return (ir.ScalarType,)
    return None
