"""Collects operands, expressions and results of an op in one pass, optimized for speed; skips constants."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from wrapper_ir import ir
from wrapper_ir.expr import Bool, Expr, Float, Int

Scanned = tuple[list[ir.Value], list[Expr], list[ir.Value]]
"""Operands with repetitions (including values in atoms), expressions that are not constants, and results."""

_CONSTANTS = (Int, Float, Bool)
# Any: each getter returns the field's own type
_Getters = tuple[Callable[[ir.OpBase], Any], ...]


def _getters(fields: Iterable[ir.FieldSpec]) -> _Getters:
    return tuple(field.get for field in fields)


@ir.per_class
def _plan(cls: type[ir.OpBase]) -> tuple[_Getters, _Getters, _Getters]:
    """The getters of fields with operands, with arguments and expressions, and with results."""
    spec = ir.op_spec(cls)
    return _getters(spec.operands), _getters(spec.nested), _getters(spec.results)


def scan(op: ir.Op) -> Scanned:
    """Operands, expressions and results of `op`, in order of its fields."""
    values: list[ir.Value] = []
    exprs: list[Expr] = []
    results: list[ir.Value] = []
    uses, nested, defs = _plan(type(op))
    for get in uses:
        x = get(op)
        if x.__class__ is tuple:
            values += x
        else:
            values.append(x)
    for get in nested:
        _collect(get(op), values, exprs)
    for get in defs:
        x = get(op)
        if x.__class__ is tuple:
            results += x
        elif x is not None:
            results.append(x)
    return values, exprs, results


def _collect(x: object, values: list[ir.Value], exprs: list[Expr]) -> None:
    kind = type(x)
    if kind is tuple:
        for item in x:  # type: ignore[attr-defined]  # a tuple; faster than isinstance
            if type(item) is ir.Value:
                values.append(item)
            elif type(item) not in _CONSTANTS:
                _collect(item, values, exprs)
    elif kind is ir.Value:
        values.append(x)  # type: ignore[arg-type]  # a value, by its class
    elif kind not in _CONSTANTS and isinstance(x, Expr):
        exprs.append(x)
        ir.values_in(x, values)
