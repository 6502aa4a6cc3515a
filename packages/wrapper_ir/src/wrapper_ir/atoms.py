"""Atoms of expressions seen from programs: which values an expression looks at."""

from __future__ import annotations

from collections.abc import Callable

from wrapper_ir.expr import Expr, Item, OffsetOf, SizeOf, StrideOf
from wrapper_ir.values import Value

__all__ = ["item_values", "map_expr_values", "values_in"]


def _by_name(value: Value) -> str:
    return value.name


def values_in(held: object, out: list[Value]) -> list[Value]:
    """Appends to `out` the values in what a field holds: a value, those under the atoms of an expression (sorted by
    name), and both in tuples of any depth."""
    if type(held) is Value:
        out.append(held)
    elif type(held) is tuple:
        for item in held:
            values_in(item, out)
    elif isinstance(held, Expr) and held.free_values:
        out += sorted(held.free_values, key=_by_name)
    return out


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
