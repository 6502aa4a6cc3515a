"""Bounds of expressions, and proofs of inequalities between sizes.

`bounds` is interval arithmetic, node by node. `prove_nonneg` expands its argument to a polynomial and shifts
every factor by its bound, which leaves a sum of terms that are >= 0 or have a known minimum. Floor divisions
are first factors with bounds, and then `(a - r)/b` with the remainder `r` in [0, b), which relates `a//b*b`
to `a`. A failed proof implies nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import lru_cache

from wrapper_ir.errors import ExpressionError
from wrapper_ir.expr.base import Atom, Expr, ExprLike, Floats, Operator, SymKind
from wrapper_ir.expr.build import as_expr, sub
from wrapper_ir.expr.interval import EVERYTHING, TRUTH, Interval
from wrapper_ir.expr.leaves import Int, Sym
from wrapper_ir.expr.normal import Monomial, accumulate, expand, product, times
from wrapper_ir.expr.operators import FLOORDIV, MAX, MIN, MOD, WHERE

_Ranges = tuple[tuple[str, Interval], ...]
_Terms = dict[Monomial, int]
_Spend = Callable[[int], None]

_MAX_DEGREE = 6
_MAX_TERMS = 512
_MAX_CASES = 16
_MAX_WORK = 20_000
_MAX_ELIMINATIONS = 8
_CHOICES = (MIN, MAX, WHERE)
_NONNEGATIVE = Interval(0, None)


def bounds(e: ExprLike, ranges: Mapping[str, Interval]) -> Interval:
    """Returns an interval of all values of `e`, for symbols within `ranges` (absent: any value)."""
    node = as_expr(e)
    return _bounds(node, _relevant(node, ranges))


def prove_nonneg(e: ExprLike, ranges: Mapping[str, Interval]) -> bool:
    """Returns True if `e >= 0` follows from the ranges; False implies nothing."""
    node = as_expr(e)
    if type(node) is Int:
        return node.value >= 0
    return _prove_nonneg(node, _relevant(node, ranges))


def prove_le(lhs: ExprLike, rhs: ExprLike, ranges: Mapping[str, Interval]) -> bool:
    """Returns True if `lhs <= rhs` follows from the ranges; False implies nothing."""
    a, b = as_expr(lhs), as_expr(rhs)
    if SymKind.FLOAT in (a.kind, b.kind):
        return bounds(a, ranges).high <= bounds(b, ranges).low
    return a is b or prove_nonneg(sub(b, a), ranges)


def prove_eq(lhs: ExprLike, rhs: ExprLike) -> bool:
    """Returns True if both sides are equal for all values of their symbols; False implies nothing."""
    a, b = as_expr(lhs), as_expr(rhs)
    if a is b or a == b:
        return a.kind is not SymKind.FLOAT or bounds(a, {}).is_bounded  # NaN differs from itself
    if not a.kind is b.kind is SymKind.INT or type(a) is type(b) is Int:
        return False
    return not expand(sub(a, b)).terms


def _relevant(e: Expr, ranges: Mapping[str, Interval]) -> _Ranges:
    """Returns the ranges that `e` depends on, as a cache key."""
    if not ranges:
        return ()
    return tuple((name, ranges[name]) for name in sorted(e.free_symbols) if name in ranges)


@lru_cache(maxsize=16384)
def _bounds(e: Expr, ranges: _Ranges) -> Interval:
    table = dict(ranges)
    intervals: dict[Expr, Interval] = {}

    def visit(node: Expr) -> Interval:
        interval = intervals.get(node)
        if interval is None:
            try:
                interval = _applied(node.op, node, visit) if node.op else _leaf(node, table)
            except (OverflowError, ZeroDivisionError):
                interval = EVERYTHING
            if node.kind is SymKind.BOOL and not interval.is_bounded:
                interval = TRUTH
            intervals[node] = interval
        return interval

    return visit(e)


def _leaf(e: Expr, ranges: Mapping[str, Interval]) -> Interval:
    value = e.constant
    if type(value) is float and not math.isfinite(value):
        return EVERYTHING
    if value is not None:
        return Interval.point(value if type(value) is float else int(value))
    if type(e) is Sym:
        return ranges.get(e.name, EVERYTHING)
    return e.bounds if isinstance(e, Atom) else EVERYTHING


def _applied(op: Operator, e: Expr, visit: Callable[[Expr], Interval]) -> Interval:
    """Returns the bounds of an operator's result.

    Float operands must be bounded on both sides, because an unbounded one may be NaN. Float end points are
    sound because these operations round monotonically.
    """
    intervals = [visit(arg) for arg in e.args]
    if op.floats is not Floats.ALWAYS:
        floats = [x for arg, x in zip(e.args, intervals, strict=True) if arg.kind is SymKind.FLOAT]
        if floats and (op.floats is Floats.NEVER or not all(x.is_bounded for x in floats)):
            return EVERYTHING
    result = op.bounds(*intervals)
    is_finite = math.isfinite(result.low) and math.isfinite(result.high)
    return result if is_finite or e.kind is not SymKind.FLOAT else EVERYTHING


@lru_cache(maxsize=16384)
def _prove_nonneg(e: Expr, ranges: _Ranges) -> bool:
    if _bounds(e, ranges).low >= 0:
        return True
    if e.kind is SymKind.FLOAT:
        return False
    try:
        return _Prover(dict(ranges)).nonneg(dict(expand(e).terms))
    except (_GaveUp, ExpressionError):  # too much work, or a number with too many bits
        return False


class _GaveUp(Exception):
    """The proof exceeds its work limit."""


class _Prover:
    """One proof: the symbols' ranges, and the cases and terms that it may still visit."""

    def __init__(self, ranges: Mapping[str, Interval]) -> None:
        self._ranges = ranges
        self._cases = _MAX_CASES
        self._work = _MAX_WORK

    def spend(self, terms: int) -> None:
        """Accounts for terms before they are created; raises _GaveUp above the limit."""
        self._work -= terms
        if self._work < 0:
            raise _GaveUp

    def nonneg(self, terms: _Terms) -> bool:
        self._cases -= 1
        if self._cases < 0:
            return False
        return self._above(terms, -1) or self._eliminated(terms) or self._split(terms)

    def _eliminated(self, terms: _Terms) -> bool:
        by_remainders, multiple = _eliminate(terms, self.spend)
        return by_remainders is not terms and self._above(by_remainders, -multiple)

    def _above(self, terms: _Terms, limit: int) -> bool:
        """Returns True if the minimum is above `limit`; above -1 means nonnegative for an int."""
        shifted = self._shifted(terms)
        if shifted is None:
            return False
        low: int | float = shifted.pop((), 0)
        for monomial, scale in shifted.items():
            ranges = [self._range_of(factor) for factor in monomial]
            if scale == 0 or (scale > 0 and EVERYTHING not in ranges):
                continue
            if not all(interval.is_bounded for interval in ranges):
                return False
            low += scale * math.prod(interval.high - interval.low for interval in ranges)
        return low > limit

    def _shifted(self, terms: _Terms) -> _Terms | None:
        """Returns the sum over `t >= 0`, with each factor as `lo + t` or `hi - t`; None if it is too long."""
        total: _Terms = {}
        for monomial, scale in terms.items():
            if len(monomial) > _MAX_DEGREE or len(total) > _MAX_TERMS:
                return None
            partial: _Terms = {(): scale}
            for factor in monomial:
                self.spend(len(partial) * len(monomial))
                partial = _times_shifted(partial, factor, self._range_of(factor))
            accumulate(total, partial)
        return total

    def _range_of(self, factor: Expr) -> Interval:
        return bounds(factor, self._ranges)

    def _split(self, terms: _Terms) -> bool:
        """Proves the sum for all operands of a minimum, maximum or choice, or for one if that suffices."""
        node = next((f for m in terms for f in m if f.op in _CHOICES), None)
        if node is None:
            return False
        operands = node.args[1:] if node.op is WHERE else node.args
        cases = (_substitute(terms, node, operand, self.spend) for operand in operands)
        if self._any_operand_suffices(terms, node):
            return any(map(self.nonneg, cases))
        return all(map(self.nonneg, cases))

    def _any_operand_suffices(self, terms: _Terms, node: Expr) -> bool:
        """Returns True for `-k*min(a, b)` and `k*max(a, b)` with k >= 0: each operand gives a lower bound."""
        monomials = [monomial for monomial in terms if node in monomial]
        first = monomials[0]
        if node.op is WHERE or len(monomials) > 1 or first.count(node) > 1:
            return False
        upwards = (terms[first] < 0) == (node.op is MIN)
        return upwards and all(self._range_of(factor).low >= 0 for factor in first if factor != node)


def _times_shifted(terms: _Terms, factor: Expr, interval: Interval) -> _Terms:
    """Returns `terms * factor`, in which `factor` now means the distance from its bound."""
    base, sign = (interval.lo, 1) if interval.lo is not None else (interval.hi, -1)
    if base is None:
        base, sign = 0, 1  # without a bound, the factor keeps its meaning
    return product(terms, {(): int(base), (factor,): sign} if base else {(factor,): sign})


def _eliminate(terms: _Terms, spend: _Spend) -> tuple[_Terms, int]:
    """Rewrites `a//b` as `(a - a % b)/b` if `b` is a number, and `b*(a//b)` as `a - a % b`.

    Returns a multiple of the sum and the multiplier; `terms` itself if it has no such quotient.
    """
    multiple = 1
    for _ in range(_MAX_ELIMINATIONS):
        quotients = {monomial: _quotient_in(monomial) for monomial in terms}
        divisors = [d.value for q in quotients.values() if q is not None and type(d := q.args[1]) is Int]
        if not any(quotients.values()):
            return terms, multiple
        common = math.lcm(*divisors)
        result: _Terms = {}
        for monomial, scale in terms.items():
            quotient = quotients[monomial]
            if quotient is None:
                accumulate(result, {monomial: scale}, common)
                continue
            lhs, rhs = quotient.args
            by, rest = common, list(monomial)
            rest.remove(quotient)
            if type(rhs) is Int:
                by //= rhs.value
            else:
                rest.remove(rhs)
            numerator = dict(expand(lhs).terms)
            spend(len(numerator) * len(monomial))
            accumulate(numerator, {(MOD(lhs, rhs),): -1})
            accumulate(result, times(numerator, tuple(rest)), scale * by)
        if len(result) > _MAX_TERMS:
            return terms, multiple
        terms, multiple = result, multiple * common
    return terms, multiple


def _quotient_in(monomial: Monomial) -> Expr | None:
    """Returns a floor division among the factors, by a number or by another factor."""
    return next((f for f in monomial if f.op is FLOORDIV and _divides(f.args[1], monomial)), None)


def _divides(divisor: Expr, monomial: Monomial) -> bool:
    return divisor.value > 0 if type(divisor) is Int else divisor in monomial


def _substitute(terms: _Terms, node: Expr, operand: Expr, spend: _Spend) -> _Terms:
    value = dict(expand(operand).terms)
    result: _Terms = {}
    for monomial, scale in terms.items():
        partial: _Terms = {(): scale}
        for factor in monomial:
            by: _Terms = value if factor == node else {(factor,): 1}
            spend(len(partial) * len(by) * len(monomial))
            partial = product(partial, by)
        accumulate(result, partial)
    return {monomial: scale for monomial, scale in result.items() if scale}
