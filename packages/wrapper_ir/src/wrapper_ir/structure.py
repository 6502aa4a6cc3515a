"""Structural access to ops: results, operands, expressions, and rebuilding with other values.

Driven by the roles in the ops' annotations (`wrapper_ir.ops.spec`), so that it is complete by construction.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from wrapper_ir.atoms import map_expr_values, values_in
from wrapper_ir.expr import Expr
from wrapper_ir.ops import OpBase, Shape, op_spec
from wrapper_ir.values import Value

__all__ = ["callees", "exprs", "is_used", "map_values", "operands", "results"]

OpT = TypeVar("OpT", bound=OpBase)


def results(op: OpBase) -> tuple[Value, ...]:
    """The values that `op` defines, in order."""
    return tuple(v for field in op_spec(type(op)).results for v in field.values(op))


def operands(op: OpBase) -> tuple[Value, ...]:
    """The values that `op` uses, in order of its fields, atoms of expressions included; with repetitions."""
    out: list[Value] = []
    for field in op_spec(type(op)).inputs:
        values_in(field.get(op), out)
    return tuple(out)


def is_used(value: Value, ops: Iterable[OpBase]) -> bool:
    """Whether one of the ops uses the value."""
    return any(value in operands(op) for op in ops)


def exprs(op: OpBase) -> tuple[Expr, ...]:
    """All expressions that `op` evaluates, those of its result types not included."""
    out: list[Expr] = []
    for field in op_spec(type(op)).nested:
        _exprs(field.get(op), out)
    return tuple(out)


def _exprs(held: object, out: list[Expr]) -> None:
    if type(held) is tuple:
        for item in held:
            _exprs(item, out)
    elif isinstance(held, Expr):
        out.append(held)


def map_values(op: OpT, use: Callable[[Value], Value], define: Callable[[Value], Value] | None = None) -> OpT:
    """`op` with every operand replaced by `use(operand)` and, if given, every result by `define(result)`."""
    spec = op_spec(type(op))
    # Any: each field keeps its own type, which _map preserves
    changes: dict[str, Any] = {f.name: _map(f.get(op), use) for f in spec.inputs}
    if define is not None:
        changes |= {f.name: _map(f.get(op), define) for f in spec.results}
    return dataclasses.replace(op, **changes)


def _map(held: object, use: Callable[[Value], Value]) -> object:
    if type(held) is Value:
        return use(held)
    if type(held) is tuple:
        return tuple([_map(item, use) for item in held])
    return map_expr_values(held, use) if isinstance(held, Expr) else held


def callees(op: OpBase) -> tuple[str, ...]:
    """Names of the program's functions that `op` calls."""
    fields = op_spec(type(op)).callees
    if not fields:
        return ()
    found: list[str] = []
    for field in fields:
        found += field.get(op) if field.shape is Shape.MANY else (field.get(op),)
    return tuple(found)
