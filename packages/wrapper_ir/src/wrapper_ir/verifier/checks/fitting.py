"""Whether an argument fits the type that an operator's schema declares.

Lenient where the library converts by itself: a number fits a tensor or a list, types that we do not know fit
anything.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType

from wrapper_ir.expr import Expr, SymKind
from wrapper_ir.ops import Arg, Complex
from wrapper_ir.types import (
    Device,
    DType,
    Layout,
    MemoryFormat,
    OpaqueKind,
    OpaqueType,
    ScalarType,
    StorageType,
    TensorType,
    Type,
)
from wrapper_ir.values import Value

__all__ = ["fits", "result_kinds"]

_LIST = re.compile(r"(.*)\[\d*\]")


def fits(arg: Arg, declared: str) -> bool:
    """Whether `arg` may be passed for an argument of schema type `declared` (`Tensor`, `SymInt[]`, `float?`)."""
    if declared == "Tensor":
        return isinstance(_type(arg), TensorType) or _is_opaque(arg, OpaqueKind.PACKED) or _is_scalar(arg)
    if declared.endswith("?"):
        return arg is None or fits(arg, declared[:-1])
    element = _LIST.fullmatch(declared)
    if element is not None:
        if isinstance(arg, tuple):
            return all(fits(item, element[1]) for item in arg)
        return declared[-2] != "[" and fits(arg, element[1]) if _is_number(arg) else _is_nested(arg)
    judge = _JUDGES.get(declared)
    return judge(arg) if judge is not None else not _is_storage(arg)


def _type(arg: Arg) -> Type | None:
    return arg.type if isinstance(arg, Value) else None


def _kind(arg: Arg) -> SymKind | None:
    if isinstance(arg, Expr):
        return arg.kind
    type = _type(arg)
    return type.kind if isinstance(type, ScalarType) else None


def _is_number(arg: Arg) -> bool:
    return _kind(arg) is not None


def _is_scalar(arg: Arg) -> bool:
    return isinstance(arg, Complex) or _is_number(arg)


def _is_int(arg: Arg) -> bool:
    return _kind(arg) in (SymKind.INT, SymKind.BOOL)


def _is_bool(arg: Arg) -> bool:
    return _kind(arg) is SymKind.BOOL


def _is_nested(arg: Arg) -> bool:
    """A whole nested result passed as a list."""
    return isinstance(arg, Value) and not isinstance(arg.type, StorageType | TensorType | ScalarType)


def _is_storage(arg: Arg) -> bool:
    return isinstance(_type(arg), StorageType)


def _is_string(arg: Arg) -> bool:
    return isinstance(arg, str)


def _is_dtype(arg: Arg) -> bool:
    return isinstance(arg, DType) or _kind(arg) is SymKind.INT


def _is_device(arg: Arg) -> bool:
    return isinstance(arg, Device | str)


def _is_layout(arg: Arg) -> bool:
    return isinstance(arg, Layout) or _kind(arg) is SymKind.INT


def _is_format(arg: Arg) -> bool:
    return isinstance(arg, MemoryFormat) or _kind(arg) is SymKind.INT


def _is_opaque(arg: Arg, kind: OpaqueKind) -> bool:
    type = _type(arg)
    return isinstance(type, OpaqueType) and type.kind is kind


def _is_generator(arg: Arg) -> bool:
    return _is_opaque(arg, OpaqueKind.GENERATOR)


_JUDGES: Mapping[str, Callable[[Arg], bool]] = MappingProxyType(
    {
        "int": _is_int,
        "SymInt": _is_int,
        "bool": _is_bool,
        "SymBool": _is_bool,
        "float": _is_number,
        "SymFloat": _is_number,
        "Scalar": _is_scalar,
        "number": _is_scalar,
        "str": _is_string,
        "ScalarType": _is_dtype,
        "Device": _is_device,
        "Layout": _is_layout,
        "MemoryFormat": _is_format,
        "Generator": _is_generator,
    }
)


def result_kinds(declared: str) -> tuple[type, ...] | None:
    """Kinds of IR types that a return of schema type `declared` may be taken as; None where we do not know."""
    base = declared.removesuffix("?")
    if base == "Tensor":
        return (TensorType,)
    if base in ("int", "SymInt", "float", "SymFloat", "bool", "SymBool", "Scalar", "number"):
        return (ScalarType,)
    return None
