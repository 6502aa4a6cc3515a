"""Interval arithmetic of one node over the intervals of its operands.

Floats are followed only while every float operand is bounded on both sides: an unbounded one may be NaN.
Endpoints of floats are sound because the operations that are followed round monotonically.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from wrapper_ir.expr.base import Expr, SymKind
from wrapper_ir.expr.interval import EVERYTHING, TRUTH, Interval
from wrapper_ir.expr.leaves import Item, Sym
from wrapper_ir.expr.operator_row import Floats, Operator

__all__ = ["node_bounds"]

_NONNEGATIVE = Interval(0, None)

Visit = Callable[[Expr], Interval]


def node_bounds(e: Expr, visit: Visit, ranges: Mapping[str, Interval]) -> Interval:
    """Bounds of `e`, where `visit` gives those of its operands and `ranges` those of the symbols."""
    try:
        found = _leaf(e, ranges) if e.op is None else _applied(e.op, e, visit)
    except (OverflowError, ZeroDivisionError):
        return EVERYTHING
    if e.kind is SymKind.BOOL and not found.is_bounded:
        return TRUTH
    return found


def _leaf(e: Expr, ranges: Mapping[str, Interval]) -> Interval:
    value = e.constant
    if value is not None:
        if type(value) is float:
            return Interval.point(value) if math.isfinite(value) else EVERYTHING
        return Interval.point(int(value))
    if type(e) is Sym:
        return ranges.get(e.name, EVERYTHING)
    return EVERYTHING if type(e) is Item else _NONNEGATIVE


def _applied(op: Operator, e: Expr, visit: Visit) -> Interval:
    intervals = [visit(arg) for arg in e.args]
    if op.floats is not Floats.ALWAYS:
        floats = [
            interval for arg, interval in zip(e.args, intervals, strict=True) if arg.kind is SymKind.FLOAT
        ]
        if floats and (op.floats is Floats.NEVER or not all(interval.is_bounded for interval in floats)):
            return EVERYTHING
    found = op.bounds(*intervals)
    return found if e.kind is not SymKind.FLOAT or _is_finite(found) else EVERYTHING


def _is_finite(interval: Interval) -> bool:
    return all(end is not None and math.isfinite(end) for end in (interval.lo, interval.hi))
