"""Intervals of numbers and arithmetic on them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from itertools import product

from wrapper_ir.errors import ExpressionError
from wrapper_ir.expr.arithmetic import power

Bound = int | float | None
"""An end of an interval; None is unbounded."""
_MAX_BITS = 256
_LONG = 1 << (_MAX_BITS - 1)


def _is_long(end: Bound) -> bool:
    return type(end) is int and end.bit_length() > _MAX_BITS


@dataclass(frozen=True, slots=True)
class Interval:
    """All numbers from `lo` to `hi`, inclusive; None or infinity is unbounded. Raises WIR405 if `lo > hi`."""

    lo: Bound = None
    hi: Bound = None

    def __post_init__(self) -> None:
        # Numbers this long are useless as bounds, and arithmetic would only lengthen them.
        if self.lo == -math.inf or _is_long(self.lo):
            object.__setattr__(self, "lo", None if self.low < 0 else _LONG)
        if self.hi == math.inf or _is_long(self.hi):
            object.__setattr__(self, "hi", None if self.high > 0 else -_LONG)
        if not self.low <= self.high:
            raise ExpressionError("WIR405", f"interval from {self.lo} to {self.hi} is empty")

    @staticmethod
    def point(value: int | float) -> Interval:
        """Returns the interval that contains only `value`."""
        return Interval(value, value)

    @property
    def low(self) -> int | float:
        """Lower end as a number, possibly minus infinity."""
        return -math.inf if self.lo is None else self.lo

    @property
    def high(self) -> int | float:
        """Upper end as a number, possibly infinity."""
        return math.inf if self.hi is None else self.hi

    @property
    def is_point(self) -> bool:
        """Returns whether the interval contains exactly one number."""
        return self.lo is not None and self.lo == self.hi

    @property
    def is_bounded(self) -> bool:
        """Returns whether both ends are finite."""
        return self.lo is not None and self.hi is not None

    def __contains__(self, value: int | float) -> bool:
        return self.low <= value <= self.high

    def __neg__(self) -> Interval:
        return Interval(-self.high, -self.low)

    def __add__(self, other: Interval) -> Interval:
        return Interval(self.low + other.low, self.high + other.high)

    def __mul__(self, other: Interval) -> Interval:
        return _hull(_times, self, other)

    def union(self, other: Interval) -> Interval:
        """Returns the smallest interval that contains both."""
        return Interval(min(self.low, other.low), max(self.high, other.high))

    def minimum(self, other: Interval) -> Interval:
        """Returns the interval of the minimum of one number from each."""
        return Interval(min(self.low, other.low), min(self.high, other.high))

    def maximum(self, other: Interval) -> Interval:
        """Returns the interval of the maximum of one number from each."""
        return Interval(max(self.low, other.low), max(self.high, other.high))

    def floordiv(self, other: Interval) -> Interval:
        """Returns the interval of floor quotients by the nonzero ints in `other`."""
        return _unite([_hull(_quotient, self, part) for part in _without_zero(other)])

    def ceildiv(self, other: Interval) -> Interval:
        """Returns the interval of ceiling quotients by the nonzero ints in `other`."""
        return -((-self).floordiv(other))

    def mod(self, other: Interval) -> Interval:
        """Returns the interval of int remainders, which have the sign of the divisor."""
        above, below = self._mod_positive, (-self)._mod_positive
        return _unite([above(part) if part.low > 0 else -below(-part) for part in _without_zero(other)])

    def _mod_positive(self, divisor: Interval) -> Interval:
        if self.low >= 0 and self.high < divisor.low:
            return self
        return Interval(0, min(self.high if self.low >= 0 else math.inf, divisor.high - 1))

    def power(self, other: Interval) -> Interval:
        """Returns the interval of int powers with exponents >= 0."""
        if self.low < 0:
            even = other.is_point and isinstance(other.lo, int) and other.lo % 2 == 0
            return Interval(0, None) if even else EVERYTHING
        lo = _power(self.low, max(other.low, 0), _LONG) if self.low >= 1 else 0
        if self.hi is None or other.hi is None:
            return Interval(lo, None)
        return Interval(lo, _power(max(self.hi, 1), max(other.hi, 0), None))

    def apply(self, function: Callable[[int | float], int | float]) -> Interval:
        """Returns the image under a nondecreasing function."""
        lo, hi = (None if end is None else function(end) for end in (self.lo, self.hi))
        return Interval(lo, hi)

    def absolute(self) -> Interval:
        """Returns the interval of absolute values."""
        if self.low >= 0:
            return self
        return -self if self.high <= 0 else Interval(0, max(-self.low, self.high))


EVERYTHING = Interval()
TRUTH = Interval(0, 1)
TRUE = Interval(1, 1)
FALSE = Interval(0, 0)


def _times(a: float, b: float) -> float:
    # Zero times infinity is zero: every number of the interval is finite.
    return a * b if a and b else 0


def _quotient(a: float, b: float) -> float:
    if math.isinf(a):
        return a if b > 0 else -a
    if math.isinf(b):  # the limit of a finite number over growing divisors
        return -1 if _times(a, b) < 0 else 0
    return a // b


def _hull(function: Callable[[float, float], float], a: Interval, b: Interval) -> Interval:
    corners = [function(*ends) for ends in product((a.low, a.high), (b.low, b.high))]
    return Interval(min(corners), max(corners))


def _without_zero(interval: Interval) -> list[Interval]:
    parts = [Interval(interval.lo, min(-1, interval.high))] if interval.low < 0 else []
    return parts + ([Interval(max(1, interval.low), interval.hi)] if interval.high > 0 else [])


def _unite(parts: list[Interval]) -> Interval:
    return reduce(Interval.union, parts) if parts else EVERYTHING


def _power(base: float, exp: float, otherwise: int | None) -> float | None:
    """Returns the power, or `otherwise` if it is too long to be computed."""
    try:
        return power(int(base), int(exp))
    except ExpressionError:
        return otherwise
