"""Structural access to ops: results, operands, expressions, and rebuilding with other values.

Driven by the roles in the ops' annotations (`wrapper_ir.ops.spec`), so that it is complete by construction.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from wrapper_ir.atoms import atom_values, map_expr_values
from wrapper_ir.expr import Expr
from wrapper_ir.ops import OpBase, Role, op_spec
from wrapper_ir.values import Value

__all__ = ["callees", "exprs", "map_values", "operands", "results"]

OpT = TypeVar("OpT", bound=OpBase)


def _values(x: object) -> Iterator[Value]:
    if isinstance(x, Value):
        yield x
    elif isinstance(x, tuple):
        for item in x:
            yield from _values(item)
    elif isinstance(x, Expr):
        yield from atom_values(x)


def _exprs(x: object) -> Iterator[Expr]:
    if isinstance(x, Expr):
        yield x
    elif isinstance(x, tuple):
        for item in x:
            yield from _exprs(item)


def results(op: OpBase) -> tuple[Value, ...]:
    """The values that `op` defines, in order."""
    return tuple(v for field in op_spec(type(op)).results for v in field.values(op))


def operands(op: OpBase) -> tuple[Value, ...]:
    """The values that `op` uses, in order of its fields, atoms of expressions included; with repetitions."""
    spec = op_spec(type(op))
    return tuple(v for field in (*spec.operands, *spec.nested) for v in _values(field.get(op)))


def exprs(op: OpBase) -> tuple[Expr, ...]:
    """All expressions that `op` evaluates, those of its result types not included."""
    spec = op_spec(type(op))
    return tuple(e for field in spec.of_role(Role.EXPR, Role.ARG) for e in _exprs(field.get(op)))


def _map(x: object, use: Callable[[Value], Value]) -> object:
    if isinstance(x, Value):
        return use(x)
    if isinstance(x, tuple):
        return tuple(_map(item, use) for item in x)
    if isinstance(x, Expr):
        return map_expr_values(x, use)
    return x


def map_values(op: OpT, use: Callable[[Value], Value], define: Callable[[Value], Value] | None = None) -> OpT:
    """`op` with every operand replaced by `use(operand)` and, if given, every result by `define(result)`."""
    spec = op_spec(type(op))
    # Any: each field keeps its own type, which _map preserves
    changes: dict[str, Any] = {f.name: _map(f.get(op), use) for f in (*spec.operands, *spec.nested)}
    if define is not None:
        changes |= {f.name: _map(f.get(op), define) for f in spec.results}
    return dataclasses.replace(op, **changes)


def callees(op: OpBase) -> tuple[str, ...]:
    """Names of the program's functions that `op` calls."""
    fields = op_spec(type(op)).callees
    if not fields:
        return ()
    found: list[str] = []
    for field in fields:
        held: str | tuple[str, ...] = field.get(op)
        found += (held,) if isinstance(held, str) else held
    return tuple(found)
