"""Interval functions of operators whose arithmetic is not a method of `Interval`."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import reduce

from wrapper_ir.expr.interval import EVERYTHING, FALSE, TRUE, TRUTH, Interval


def folded(pair: Callable[[Interval, Interval], Interval]) -> Callable[..., Interval]:
    """Extends a function of two intervals to any number, folded from the left."""
    return lambda *operands: reduce(pair, operands)


def where(cond: Interval, yes: Interval, no: Interval) -> Interval:
    """Returns the interval of a choice by the condition."""
    if 0 not in cond:
        return yes
    return no if cond == FALSE else yes.union(no)


def eq(lhs: Interval, rhs: Interval) -> Interval:
    """Returns the truth of `lhs == rhs`."""
    if lhs.is_point and lhs == rhs:
        return TRUE
    return FALSE if TRUE in (lt(lhs, rhs), lt(rhs, lhs)) else TRUTH


def lt(lhs: Interval, rhs: Interval) -> Interval:
    """Returns the truth of `lhs < rhs`."""
    if lhs.high < rhs.low:
        return TRUE
    return FALSE if lhs.low >= rhs.high else TRUTH


def negation(operand: Interval) -> Interval:
    """Returns the truth of `operand == 0`."""
    return where(operand, FALSE, TRUE)


def conjunction(*operands: Interval) -> Interval:
    """Returns the truth of all operands being nonzero."""
    if FALSE in operands:
        return FALSE
    return TRUTH if any(0 in operand for operand in operands) else TRUE


def disjunction(*operands: Interval) -> Interval:
    """Returns the truth of any operand being nonzero."""
    return negation(conjunction(*map(negation, operands)))


def truediv(lhs: Interval, rhs: Interval) -> Interval:
    """Returns the interval of float quotients of bounded operands; rounding is monotone."""
    if not lhs.is_bounded or not rhs.is_bounded or 0 in rhs:
        return EVERYTHING
    corners = [a / b for a in (lhs.low, lhs.high) for b in (rhs.low, rhs.high)]
    return Interval(min(corners), max(corners))


def bit_and(*operands: Interval) -> Interval:
    """Returns the interval of `&`: for nonnegative operands, at most the least operand."""
    return _natural(operands, min(operand.high for operand in operands))


def bit_or(*operands: Interval) -> Interval:
    """Returns the interval of `|` or `^`: for nonnegative operands, no more bits than the longest operand."""
    high = max(operand.high for operand in operands)
    return _natural(operands, high if high == math.inf else (1 << int(high).bit_length()) - 1)


def _natural(operands: Sequence[Interval], high: float) -> Interval:
    return EVERYTHING if any(operand.low < 0 for operand in operands) else Interval(0, high)
