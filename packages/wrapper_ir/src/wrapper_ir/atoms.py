"""Atoms of expressions seen from programs: which values an expression looks at."""

from __future__ import annotations

from collections.abc import Callable

from wrapper_ir.expr import Expr, Item, OffsetOf, SizeOf, StrideOf
from wrapper_ir.values import Value

__all__ = ["atom_values", "item_values", "map_expr_values"]


def _by_name(value: Value) -> str:
    return value.name


def atom_values(expr: Expr) -> tuple[Value, ...]:
    """Values under any atom, sorted by name."""
    free = expr.free_values
    return tuple(sorted(free, key=_by_name)) if free else ()


def item_values(expr: Expr) -> tuple[Value, ...]:
    """Values whose content is read (under `item`), sorted by name."""
    if not expr.free_values:
        return ()
    found: set[Value] = set()
    stack = [expr]
    while stack:
        e = stack.pop()
        if isinstance(e, Item):
            found.add(e.value)
        else:
            stack.extend(e.args)
    return tuple(sorted(found, key=_by_name))


def map_expr_values(expr: Expr, use: Callable[[Value], Value]) -> Expr:
    """The same expression over other values; nothing is simplified."""
    if not expr.free_values:
        return expr
    if isinstance(expr, SizeOf | StrideOf):
        return type(expr)(use(expr.value), expr.dim)
    if isinstance(expr, OffsetOf | Item):
        return type(expr)(use(expr.value))
    fields = []
    for name in expr.__match_args__:
        field = getattr(expr, name)  # the node's own fields, by slot name
        if isinstance(field, Expr):
            field = map_expr_values(field, use)
        elif isinstance(field, tuple):
            field = tuple(map_expr_values(f, use) for f in field)
        fields.append(field)
    return type(expr)(*fields)
