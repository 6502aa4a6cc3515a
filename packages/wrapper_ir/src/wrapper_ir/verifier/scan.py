"""Operands and expressions of an op in one pass, optimised for speed: constants are skipped."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from wrapper_ir import ir
from wrapper_ir.expr import Bool, Expr, Float, Int

Scanned = tuple[list[ir.Value], list[Expr], list[ir.Value]]
"""Operands with repetitions (values under atoms included), the expressions that are not constants, and results."""

_CONSTANTS = (Int, Float, Bool)
# Any: each getter returns the field's own type
_Getters = tuple[Callable[[ir.OpBase], Any], ...]


def _getters(fields: Iterable[ir.FieldSpec]) -> _Getters:
    return tuple(field.get for field in fields)


@ir.per_class
def _plan(cls: type[ir.OpBase]) -> tuple[_Getters, _Getters, _Getters]:
    """What reads operands, arguments and expressions, and results."""
    spec = ir.op_spec(cls)
    return _getters(spec.operands), _getters(spec.nested), _getters(spec.results)


def scan(op: ir.Op) -> Scanned:
    """Operands, expressions and results of `op`, in order of its fields."""
    values: list[ir.Value] = []
    found: list[Expr] = []
    made: list[ir.Value] = []
    uses, nested, results = _plan(type(op))
    for get in uses:
        x = get(op)
        if x.__class__ is tuple:
            values += x
        else:
            values.append(x)
    for get in nested:
        _collect(get(op), values, found)
    for get in results:
        x = get(op)
        if x.__class__ is tuple:
            made += x
        elif x is not None:
            made.append(x)
    return values, found, made


def _collect(x: object, values: list[ir.Value], found: list[Expr]) -> None:
    kind = type(x)
    if kind is tuple:
        for item in x:  # type: ignore[attr-defined]  # a tuple, by the line above, made so for speed
            if type(item) is ir.Value:
                values.append(item)
            elif type(item) not in _CONSTANTS:
                _collect(item, values, found)
    elif kind is ir.Value:
        values.append(x)  # type: ignore[arg-type]  # as above
    elif kind not in _CONSTANTS and isinstance(x, Expr):
        found.append(x)
        ir.values_in(x, values)
