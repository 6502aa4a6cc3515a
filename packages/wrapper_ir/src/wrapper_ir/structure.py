"""Structural access to ops: results, operands, expressions, and rebuilding with other values.

Driven by the roles in the ops' annotations, so that it is complete by construction.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from wrapper_ir.atoms import atom_values, map_expr_values
from wrapper_ir.expr import Expr
from wrapper_ir.ops import OP_CLASSES, CallSubgraph, Conditional, Op, OpBase, WhileLoop
from wrapper_ir.values import Value

__all__ = ["FieldRoles", "callees", "exprs", "field_roles", "map_values", "operands", "results"]

OpT = TypeVar("OpT", bound=OpBase)


@dataclasses.dataclass(frozen=True, slots=True)
class FieldRoles:
    """Field names of one op class by role; `exprs` may hold expressions outside arguments."""

    defs: tuple[str, ...]
    uses: tuple[str, ...]
    args: tuple[str, ...]
    exprs: tuple[str, ...]
    attrs: tuple[str, ...]


_ROLE_OF_ANNOTATION = {
    "Def": "def",
    "OptionalDef": "def",
    "Defs": "def",
    "Use": "use",
    "Uses": "use",
    "SingleArg": "arg",
    "Args": "arg",
    "Kwargs": "arg",
    "Expr": "expr",
    "tuple[Expr, ...]": "expr",
}


def _read_roles(cls: type[OpBase]) -> FieldRoles:
    found: dict[str, list[str]] = {"def": [], "use": [], "arg": [], "expr": [], "attr": []}
    for field in dataclasses.fields(cls):
        if field.name != "prov":
            found[_ROLE_OF_ANNOTATION.get(str(field.type), "attr")].append(field.name)
    return FieldRoles(*(tuple(found[k]) for k in ("def", "use", "arg", "expr", "attr")))


_ROLES: dict[type[OpBase], FieldRoles] = {cls: _read_roles(cls) for cls in OP_CLASSES}


def field_roles(cls: type[OpBase]) -> FieldRoles:
    """The roles of an op class's fields, read from its annotations (see `wrapper_ir.ops.base`)."""
    return _ROLES[cls]


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


def results(op: Op) -> tuple[Value, ...]:
    """The values that `op` defines, in order."""
    out: list[Value] = []
    for name in field_roles(type(op)).defs:
        x = getattr(op, name)
        if isinstance(x, Value):
            out.append(x)
        elif x is not None:
            out.extend(x)
    return tuple(out)


def operands(op: Op) -> tuple[Value, ...]:
    """The values that `op` uses, in order of its fields, atoms of expressions included; with repetitions."""
    roles = field_roles(type(op))
    out: list[Value] = []
    for name in (*roles.uses, *roles.args, *roles.exprs):
        out.extend(_values(getattr(op, name)))
    return tuple(out)


def exprs(op: Op) -> tuple[Expr, ...]:
    """All expressions that `op` evaluates, those of its result types not included."""
    roles = field_roles(type(op))
    out: list[Expr] = []
    for name in (*roles.exprs, *roles.args):
        out.extend(_exprs(getattr(op, name)))
    return tuple(out)


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
    roles = field_roles(type(op))
    # Any: each field keeps its own type, which _map preserves
    changes: dict[str, Any] = {
        name: _map(getattr(op, name), use) for name in (*roles.uses, *roles.args, *roles.exprs)
    }
    if define is not None:
        changes |= {name: _map(getattr(op, name), define) for name in roles.defs}
    return dataclasses.replace(op, **changes)


def callees(op: Op) -> tuple[str, ...]:
    """Names of the program's functions that `op` calls."""
    match op:
        case Conditional():
            return (op.true_fn, op.false_fn)
        case WhileLoop():
            return (op.cond_fn, op.body_fn)
        case CallSubgraph():
            return (op.function,)
        case _:
            return ()
