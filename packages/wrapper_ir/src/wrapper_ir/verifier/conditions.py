"""Conditions in the form in which a reader wants to see them."""

from __future__ import annotations

from math import gcd

from wrapper_ir.expr import Expr, Int, floordiv, le
from wrapper_ir.expr.operators import ADD, MUL


def at_most(a: Expr, b: Expr) -> Expr:
    """`a <= b`, where bytes that both sides count in groups are counted as groups."""
    common = gcd(_factor(a), _factor(b))
    return le(floordiv(a, common), floordiv(b, common)) if common > 1 else le(a, b)


def _factor(e: Expr) -> int:
    """A number that surely divides `e`."""
    if isinstance(e, Int):
        return abs(e.value)
    if e.op is MUL:
        return next((abs(f.value) for f in e.args if isinstance(f, Int)), 1)
    return gcd(*map(_factor, e.args)) if e.op is ADD else 1
