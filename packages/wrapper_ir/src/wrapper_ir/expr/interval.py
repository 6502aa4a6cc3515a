"""Intervals of numbers and arithmetic on them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import product

from wrapper_ir.errors import ExpressionError
from wrapper_ir.expr.arithmetic import power

__all__ = ["EVERYTHING", "FALSE", "TRUE", "TRUTH", "Bound", "Interval"]

Bound = int | float | None
"""An end of an interval; None is unbounded."""


_MAX_BITS = 256


def _is_long(end: float) -> bool:
    return type(end) is int and end.bit_length() > _MAX_BITS


@dataclass(frozen=True, slots=True)
class Interval:
    """All numbers from `lo` to `hi`, both included; None, or an infinity, is unbounded. Raises WIR405 where `lo > hi`."""

    lo: Bound = None
    hi: Bound = None

    def __post_init__(self) -> None:
        if self.lo == -math.inf:
            object.__setattr__(self, "lo", None)
        if self.hi == math.inf:
            object.__setattr__(self, "hi", None)
        # Numbers that long are of no use as bounds, and only get longer.
        if self.lo is not None and _is_long(self.lo):
            object.__setattr__(self, "lo", None if self.lo < 0 else 1 << (_MAX_BITS - 1))
        if self.hi is not None and _is_long(self.hi):
            object.__setattr__(self, "hi", None if self.hi > 0 else -(1 << (_MAX_BITS - 1)))
        if self.lo is not None and self.hi is not None and not self.lo <= self.hi:
            raise ExpressionError("WIR405", f"interval from {self.lo} to {self.hi} is empty")

    @staticmethod
    def point(value: int | float) -> Interval:
        """The interval that holds only `value`."""
        return Interval(value, value)

    @property
    def is_point(self) -> bool:
        """True where there is one number in it."""
        return self.lo is not None and self.lo == self.hi

    @property
    def is_bounded(self) -> bool:
        """True where both ends are numbers."""
        return self.lo is not None and self.hi is not None

    def __contains__(self, value: int | float) -> bool:
        return (self.lo is None or self.lo <= value) and (self.hi is None or value <= self.hi)

    def __neg__(self) -> Interval:
        return Interval(None if self.hi is None else -self.hi, None if self.lo is None else -self.lo)

    def __add__(self, other: Interval) -> Interval:
        lo = None if self.lo is None or other.lo is None else self.lo + other.lo
        hi = None if self.hi is None or other.hi is None else self.hi + other.hi
        return Interval(lo, hi)

    def __mul__(self, other: Interval) -> Interval:
        if self == _ZERO or other == _ZERO:
            return _ZERO
        return _hull(_times(a, b) for a, b in product(_ends(self), _ends(other)))

    def union(self, other: Interval) -> Interval:
        """The least interval that holds both."""
        lo = None if self.lo is None or other.lo is None else min(self.lo, other.lo)
        hi = None if self.hi is None or other.hi is None else max(self.hi, other.hi)
        return Interval(lo, hi)

    def minimum(self, other: Interval) -> Interval:
        """Where the lesser of a number of each lies."""
        lo = None if self.lo is None or other.lo is None else min(self.lo, other.lo)
        return Interval(lo, min((b for b in (self.hi, other.hi) if b is not None), default=None))

    def maximum(self, other: Interval) -> Interval:
        """Where the greater of a number of each lies."""
        return -((-self).minimum(-other))

    def floordiv(self, other: Interval) -> Interval:
        """Floor quotients, by the nonzero numbers of `other`; both of ints."""
        parts = [
            _hull(_quotient(a, b) for a, b in product(_ends(self), _ends(part)))
            for part in _without_zero(other)
        ]
        return _unite(parts)

    def ceildiv(self, other: Interval) -> Interval:
        """Ceiling quotients, by the nonzero numbers of `other`; both of ints."""
        return -((-self).floordiv(other))

    def mod(self, other: Interval) -> Interval:
        """Remainders with the sign of the divisor; both of ints."""
        parts = []
        for part in _without_zero(other):
            if part.lo is not None and part.lo > 0:
                parts.append(self._mod_positive(part))
            else:
                parts.append(-((-self)._mod_positive(-part)))
        return _unite(parts)

    def _mod_positive(self, divisor: Interval) -> Interval:
        assert divisor.lo is not None
        if self.lo is not None and self.lo >= 0:
            if self.hi is not None and self.hi < divisor.lo:
                return self
            return Interval(0, self.hi).minimum(Interval(0, None if divisor.hi is None else divisor.hi - 1))
        return Interval(0, None if divisor.hi is None else divisor.hi - 1)

    def power(self, other: Interval) -> Interval:
        """Powers of ints with exponents >= 0."""
        if self.lo is None or self.lo < 0:
            even = other.is_point and isinstance(other.lo, int) and other.lo % 2 == 0
            return Interval(0, None) if even else EVERYTHING
        least = other.lo if other.lo is not None and other.lo >= 0 else 0
        lo = _power(self.lo, least) if self.lo >= 1 else 0
        hi = None if self.hi is None or other.hi is None else _power(max(self.hi, 1), max(other.hi, 0))
        return Interval(1 << (_MAX_BITS - 1) if lo is None else lo, hi)

    def apply(self, function: Callable[[int | float], int | float]) -> Interval:
        """Image under a function that never decreases."""
        return Interval(
            None if self.lo is None else function(self.lo), None if self.hi is None else function(self.hi)
        )

    def absolute(self) -> Interval:
        """Absolute values."""
        if self.lo is not None and self.lo >= 0:
            return self
        if self.hi is not None and self.hi <= 0:
            return -self
        return Interval(0, None if self.lo is None or self.hi is None else max(-self.lo, self.hi))


EVERYTHING = Interval()
TRUTH = Interval(0, 1)
TRUE = Interval(1, 1)
FALSE = Interval(0, 0)
_ZERO = FALSE

# While corners are compared, an end is (sign of infinity, number): infinities have number 0.
_End = tuple[int, int | float]


def _ends(interval: Interval) -> tuple[_End, _End]:
    return (
        (-1, 0) if interval.lo is None else (0, interval.lo),
        (1, 0) if interval.hi is None else (0, interval.hi),
    )


def _sign(end: _End) -> int:
    infinite, value = end
    return infinite or (value > 0) - (value < 0)


def _times(a: _End, b: _End) -> _End:
    sign = _sign(a) * _sign(b)
    # Zero times infinity is zero: every number of the interval is finite.
    return (sign, 0) if (a[0] or b[0]) else (0, a[1] * b[1])


def _quotient(a: _End, b: _End) -> _End:
    if a[0]:
        return (a[0] * _sign(b), 0)
    if b[0]:  # a finite number over ever larger ones
        return (0, -1 if _sign(a) * b[0] < 0 else 0)
    return (0, a[1] // b[1])


def _hull(ends: Iterable[_End]) -> Interval:
    found = list(ends)
    low, high = min(found), max(found)
    return Interval(None if low[0] else low[1], None if high[0] else high[1])


def _without_zero(interval: Interval) -> list[Interval]:
    parts = []
    if interval.lo is None or interval.lo < 0:
        parts.append(Interval(interval.lo, min(-1, interval.hi) if interval.hi is not None else -1))
    if interval.hi is None or interval.hi > 0:
        parts.append(Interval(max(1, interval.lo) if interval.lo is not None else 1, interval.hi))
    return parts


def _unite(parts: list[Interval]) -> Interval:
    if not parts:
        return EVERYTHING
    result = parts[0]
    for part in parts[1:]:
        result = result.union(part)
    return result


def _power(base: float, exp: float) -> float | None:
    """None where the number would be too long to be a useful bound."""
    try:
        return power(int(base), int(exp))
    except ExpressionError:
        return None
