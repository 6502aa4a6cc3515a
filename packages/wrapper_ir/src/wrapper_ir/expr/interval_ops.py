"""Interval functions of operators whose arithmetic is not a method of `Interval`."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

from wrapper_ir.expr.interval import EVERYTHING, FALSE, TRUE, TRUTH, Interval

__all__ = [
    "bit_and",
    "bit_or",
    "conjunction",
    "disjunction",
    "eq",
    "folded",
    "ge",
    "gt",
    "le",
    "lt",
    "ne",
    "negation",
    "truediv",
    "where",
]


def folded(pair: Callable[[Interval, Interval], Interval]) -> Callable[..., Interval]:
    """The function of many intervals that takes them two at a time, from the left."""
    return lambda *operands: reduce(pair, operands)


def where(cond: Interval, yes: Interval, no: Interval) -> Interval:
    """One of two, by the condition."""
    match _truth_of(cond):
        case True:
            return yes
        case False:
            return no
        case None:
            return yes.union(no)


def eq(lhs: Interval, rhs: Interval) -> Interval:
    """Whether both are the same number."""
    if lhs.is_point and lhs == rhs:
        return TRUE
    return FALSE if TRUE in (lt(lhs, rhs), lt(rhs, lhs)) else TRUTH


def lt(lhs: Interval, rhs: Interval) -> Interval:
    """Whether the first is less."""
    if lhs.hi is not None and rhs.lo is not None and lhs.hi < rhs.lo:
        return TRUE
    return FALSE if lhs.lo is not None and rhs.hi is not None and lhs.lo >= rhs.hi else TRUTH


def ne(lhs: Interval, rhs: Interval) -> Interval:
    """Whether they are different numbers."""
    return negation(eq(lhs, rhs))


def le(lhs: Interval, rhs: Interval) -> Interval:
    """Whether the first is at most the second."""
    return negation(lt(rhs, lhs))


def gt(lhs: Interval, rhs: Interval) -> Interval:
    """Whether the first is greater."""
    return lt(rhs, lhs)


def ge(lhs: Interval, rhs: Interval) -> Interval:
    """Whether the first is at least the second."""
    return negation(lt(lhs, rhs))


def _truth_of(interval: Interval) -> bool | None:
    if 0 not in interval:
        return True
    return False if interval == FALSE else None


def _from_truth(value: bool | None) -> Interval:
    return TRUTH if value is None else TRUE if value else FALSE


def negation(operand: Interval) -> Interval:
    """Where it is 0."""
    value = _truth_of(operand)
    return _from_truth(None if value is None else not value)


def conjunction(*operands: Interval) -> Interval:
    """Where none is 0."""
    values = [_truth_of(operand) for operand in operands]
    return _from_truth(False if False in values else None if None in values else True)


def disjunction(*operands: Interval) -> Interval:
    """Where any is not 0."""
    return negation(conjunction(*map(negation, operands)))


def truediv(lhs: Interval, rhs: Interval) -> Interval:
    """Quotients, of bounded operands; rounding is monotone."""
    if lhs.lo is None or lhs.hi is None or rhs.lo is None or rhs.hi is None or 0 in rhs:
        return EVERYTHING
    corners = [a / b for a in (lhs.lo, lhs.hi) for b in (rhs.lo, rhs.hi)]
    return Interval(min(corners), max(corners))


def bit_and(*operands: Interval) -> Interval:
    """Of numbers that are not negative: at most the least."""
    if any(operand.lo is None or operand.lo < 0 for operand in operands):
        return EVERYTHING
    return Interval(0, min((operand.hi for operand in operands if operand.hi is not None), default=None))


def bit_or(*operands: Interval) -> Interval:
    """Of numbers that are not negative: no more bits than the longest has."""
    if any(operand.lo is None or operand.lo < 0 for operand in operands):
        return EVERYTHING
    bits = [int(operand.hi).bit_length() for operand in operands if operand.hi is not None]
    return Interval(0, (1 << max(bits)) - 1 if len(bits) == len(operands) else None)
