"""Interval arithmetic of one node over the intervals of its operands.

Floats are followed only while every float operand is bounded on both sides: an unbounded one may be NaN.
Endpoints of floats are sound because the operations that are followed round monotonically.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from wrapper_ir.expr.base import Expr, SymKind
from wrapper_ir.expr.interval import EVERYTHING, Interval
from wrapper_ir.expr.nodes import (
    Add,
    And,
    Bool,
    CeilDiv,
    Cmp,
    CmpOp,
    Convert,
    ConvertOp,
    Float,
    FloorDiv,
    Int,
    Item,
    MathFn,
    MathOp,
    Max,
    Min,
    Mod,
    Mul,
    Node,
    Not,
    OffsetOf,
    Or,
    Pow,
    SizeOf,
    StrideOf,
    Sym,
    TrueDiv,
    Where,
)

__all__ = ["node_bounds"]

_TRUTH = Interval(0, 1)
_TRUE = Interval.point(1)
_FALSE = Interval.point(0)
_NONNEGATIVE = Interval(0, None)

Visit = Callable[[Expr], Interval]


def node_bounds(e: Expr, visit: Visit, ranges: Mapping[str, Interval]) -> Interval:
    """Bounds of `e`, where `visit` gives those of its operands and `ranges` those of the symbols."""
    try:
        found = _bounds(e, visit, ranges)  # type: ignore[arg-type]  # Expr is closed: every node is in Node
    except (OverflowError, ZeroDivisionError):
        return EVERYTHING
    if e.kind is SymKind.BOOL and not found.is_bounded:
        return _TRUTH
    return found


def _bounds(e: Node, visit: Visit, ranges: Mapping[str, Interval]) -> Interval:
    if e.kind is SymKind.FLOAT:
        return _float_bounds(e, visit, ranges)
    match e:
        case Int(value) | Bool(value) | Float(value):
            return Interval.point(int(value))
        case Sym(name):
            return ranges.get(name, EVERYTHING)
        case SizeOf() | StrideOf() | OffsetOf():
            return _NONNEGATIVE
        case Item():
            return EVERYTHING
        case Add() | Mul() | Min() | Max():
            return _fold(e, visit)
        case FloorDiv(lhs, rhs):
            return visit(lhs).floordiv(visit(rhs))
        case CeilDiv(lhs, rhs):
            return visit(lhs).ceildiv(visit(rhs))
        case Mod(lhs, rhs):
            return visit(lhs).mod(visit(rhs))
        case Pow(base, exp):
            return visit(base).power(visit(exp))
        case Where():
            return _where(e, visit)
        case Cmp() | And() | Or() | Not():
            return _truth(e, visit)
        case Convert(op, arg):
            return _convert(op, arg, visit)
        case MathFn(fn, args):
            return _math(fn, args, visit)
        case TrueDiv():
            return EVERYTHING


def _fold(e: Add | Mul | Min | Max, visit: Visit) -> Interval:
    result = visit(e.args[0])
    for arg in e.args[1:]:
        other = visit(arg)
        match e:
            case Add():
                result = result + other
            case Mul():
                result = result * other
            case Min():
                result = result.minimum(other)
            case Max():
                result = result.maximum(other)
    return result


def _where(e: Where, visit: Visit) -> Interval:
    cond = visit(e.cond)
    if cond == _TRUE:
        return visit(e.lhs)
    return visit(e.rhs) if cond == _FALSE else visit(e.lhs).union(visit(e.rhs))


def _truth(e: Cmp | And | Or | Not, visit: Visit) -> Interval:
    match e:
        case Cmp():
            return _compare(e.op, visit(e.lhs), visit(e.rhs)) if _comparable(e) else _TRUTH
        case Not(arg):
            return _from_truth(None if (value := _truth_of(visit(arg))) is None else not value)
        case And(args):
            values = [_truth_of(visit(arg)) for arg in args]
            return _from_truth(False if False in values else None if None in values else True)
        case Or(args):
            values = [_truth_of(visit(arg)) for arg in args]
            return _from_truth(True if True in values else None if None in values else False)


def _comparable(e: Cmp) -> bool:
    """Floats may be NaN, for which no comparison of bounds holds."""
    return SymKind.FLOAT not in (e.lhs.kind, e.rhs.kind)


def _compare(op: CmpOp, lhs: Interval, rhs: Interval) -> Interval:
    below = lhs.hi is not None and rhs.lo is not None and lhs.hi < rhs.lo
    above = lhs.lo is not None and rhs.hi is not None and lhs.lo > rhs.hi
    at_most = lhs.hi is not None and rhs.lo is not None and lhs.hi <= rhs.lo
    at_least = lhs.lo is not None and rhs.hi is not None and lhs.lo >= rhs.hi
    match op:
        case CmpOp.EQ:
            return _decide(at_most and at_least, below or above)
        case CmpOp.NE:
            return _decide(below or above, at_most and at_least)
        case CmpOp.LT:
            return _decide(below, at_least)
        case CmpOp.LE:
            return _decide(at_most, above)
        case CmpOp.GT:
            return _decide(above, at_most)
        case CmpOp.GE:
            return _decide(at_least, below)


def _decide(holds: bool, fails: bool) -> Interval:
    return _TRUE if holds else _FALSE if fails else _TRUTH


def _truth_of(interval: Interval) -> bool | None:
    if 0 not in interval:
        return True
    return False if interval == _FALSE else None


def _from_truth(value: bool | None) -> Interval:
    return _TRUTH if value is None else _TRUE if value else _FALSE


def _convert(op: ConvertOp, arg: Expr, visit: Visit) -> Interval:
    inner = visit(arg)
    if arg.kind is SymKind.FLOAT and not inner.is_bounded:
        return EVERYTHING
    match op:
        case ConvertOp.TO_BOOL:
            return _from_truth(_truth_of(inner))
        case ConvertOp.TO_INT:
            return inner.apply(int)
        case ConvertOp.FLOOR:
            return inner.apply(math.floor)
        case ConvertOp.CEIL:
            return inner.apply(math.ceil)
        case ConvertOp.ROUND:
            return inner.apply(round)
        case ConvertOp.TO_FLOAT:
            return inner.apply(float)


def _math(fn: MathOp, args: tuple[Expr, ...], visit: Visit) -> Interval:
    intervals = [visit(arg) for arg in args]
    if fn is MathOp.ABS:
        return intervals[0].absolute()
    if not all(interval.lo is not None and interval.lo >= 0 for interval in intervals):
        return EVERYTHING
    highs = [interval.hi for interval in intervals if interval.hi is not None]
    if fn is MathOp.BIT_AND:
        return Interval(0, min(highs, default=None))
    if len(highs) < len(intervals) or fn not in (MathOp.BIT_OR, MathOp.BIT_XOR):
        return _NONNEGATIVE if fn in (MathOp.BIT_OR, MathOp.BIT_XOR) else EVERYTHING
    return Interval(0, (1 << max(int(high).bit_length() for high in highs)) - 1)


def _float_bounds(e: Node, visit: Visit, ranges: Mapping[str, Interval]) -> Interval:
    match e:
        case Float(value):
            return Interval.point(value) if math.isfinite(value) else EVERYTHING
        case Sym(name):
            return ranges.get(name, EVERYTHING)
        case Convert(ConvertOp.TO_FLOAT, arg):
            return _bounded(_convert(ConvertOp.TO_FLOAT, arg, visit))
        case Add() | Mul() | Min() | Max() if all(visit(arg).is_bounded for arg in e.args):
            return _fold_floats(e, visit)
        case TrueDiv(lhs, rhs) if visit(lhs).is_bounded and visit(rhs).is_bounded:
            return _bounded(_true_division(visit(lhs), visit(rhs)))
        case MathFn(MathOp.ABS, (arg,)) if visit(arg).is_bounded:
            return visit(arg).absolute()
        case _:
            return EVERYTHING


def _fold_floats(e: Add | Mul | Min | Max, visit: Visit) -> Interval:
    """As `_fold`, in the order in which the sum is evaluated; bounds that overflow are none."""
    return _bounded(_fold(e, visit))


def _bounded(interval: Interval) -> Interval:
    ends = (interval.lo, interval.hi)
    return interval if all(end is not None and math.isfinite(end) for end in ends) else EVERYTHING


def _true_division(lhs: Interval, rhs: Interval) -> Interval:
    assert lhs.lo is not None
    assert lhs.hi is not None
    assert rhs.lo is not None
    assert rhs.hi is not None
    if 0 in rhs:
        return EVERYTHING
    corners = [a / b for a in (lhs.lo, lhs.hi) for b in (rhs.lo, rhs.hi)]
    return Interval(min(corners), max(corners))
