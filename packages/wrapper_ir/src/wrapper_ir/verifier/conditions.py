"""Builds conditions in a readable form."""

from __future__ import annotations

from math import gcd

from wrapper_ir.expr import Expr, floordiv, le
from wrapper_ir.expr.operators import ADD, MUL


def at_most(a: Expr, b: Expr) -> Expr:
    """`a <= b`, with both sides divided by a common factor."""
    common = gcd(_factor(a), _factor(b))
    return le(floordiv(a, common), floordiv(b, common)) if common > 1 else le(a, b)


def _factor(e: Expr) -> int:
    """A number that divides `e` for all values of its symbols."""
    if e.integer is not None:
        return abs(e.integer)
    if e.op is MUL:
        return next((_factor(f) for f in e.args if f.constant is not None), 1)
    return gcd(*map(_factor, e.args)) if e.op is ADD else 1
