"""Proves that a polynomial of sizes is not negative, from ranges and from facts (other nonnegative
polynomials)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import gcd

from wrapper_ir.errors import ExpressionError
from wrapper_ir.expr import Expr, Interval, Monomial, Poly, bounds, expand, prove_nonneg
from wrapper_ir.expr.operators import MUL
from wrapper_ir.expr.order import factor_key

Terms = Mapping[Monomial, int]
Ranges = Mapping[str, Interval]
_Places = Mapping[tuple[Expr, bool], Sequence[int]]
"""The indices of facts, by the first factor of each monomial, and whether its coefficient is positive."""

_ANY = Interval()
_Key = frozenset[tuple[Monomial, int]]
_DEPTH = 3
_STEPS = 48
_MAX_TERMS = 24


def terms_of(e: Expr) -> Terms:
    """The polynomial of an int expression."""
    return expand(e).terms


def nonneg(e: Expr, ranges: Ranges) -> bool:
    """Returns whether `e >= 0` follows from the ranges; False means unknown."""
    if e.integer is not None:
        return e.integer >= 0
    if prove_nonneg(e, ranges):
        return True
    return e.op is MUL and all(prove_nonneg(factor, ranges) for factor in e.args)


def follows(e: Expr, ranges: Ranges, facts: Sequence[Terms]) -> bool:
    """Returns whether `e >= 0` follows from the ranges and from facts, which are nonnegative polynomials."""
    if not facts:
        return False
    terms = dict(terms_of(e))
    if len(terms) > _MAX_TERMS:
        return False
    return _Search(ranges, facts).finds(terms)


def _places(facts: Sequence[Terms]) -> _Places:
    places: dict[tuple[Expr, bool], list[int]] = {}
    for place, fact in enumerate(facts):
        for monomial, scale in fact.items():
            if monomial:
                places.setdefault((monomial[0], scale > 0), []).append(place)
    return places


def _signs(facts: Sequence[Terms]) -> set[tuple[str, bool]]:
    """The symbols of facts, and whether their coefficient is positive; both signs if a symbol is part of a
    larger term."""
    signs: set[tuple[str, bool]] = set()
    for fact in facts:
        for monomial, scale in fact.items():
            is_symbol = len(monomial) == 1 and monomial[0].symbol is not None
            own = (scale > 0,) if is_symbol else (False, True)
            signs.update((name, sign) for factor in monomial for name in factor.free_symbols for sign in own)
    return signs


class _Search:
    """Subtracts facts times nonnegative factors from a polynomial until the remainder is not negative by the
    ranges."""

    def __init__(self, ranges: Ranges, facts: Sequence[Terms]) -> None:
        self._ranges = ranges
        self._facts = facts
        self._places = _places(facts)
        self._signs = _signs(facts)
        self._open: set[_Key] = set()
        """Polynomials that the ranges do not prove."""
        self._visited: set[_Key] = set()
        self._steps = _STEPS
        self._is_cut = False
        """True if the limit of depth or steps ended the search before all facts were tried."""

    def finds(self, terms: dict[Monomial, int]) -> bool:
        """Searches by iterative deepening, so that a proof from one fact is found among any number of
        facts."""
        for depth in range(1, _DEPTH + 1):
            self._visited, self._steps, self._is_cut = set(), _STEPS, False
            if self._reaches(terms, depth):
                return True
            if not self._is_cut:
                return False
        return False

    def _reaches(self, terms: dict[Monomial, int], depth: int) -> bool:
        key = frozenset(terms.items())
        if key in self._visited:
            return False
        if self._steps <= 0:
            self._is_cut = True
            return False
        self._visited.add(key)
        self._steps -= 1 + len(terms) // _MAX_TERMS
        if self._has_no_end(terms):
            return False
        if key not in self._open:
            if nonneg(Poly(terms).to_expr(), self._ranges):
                return True
            self._open.add(key)
        if len(terms) > _MAX_TERMS:
            return False
        for fact in self._near(terms):
            if depth == 0 or self._steps <= 0:
                self._is_cut = True
                return False
            if any(self._reaches(rest, depth - 1) for rest in self._without(terms, fact)):
                return True
        return False

    def _has_no_end(self, terms: Terms) -> bool:
        """Returns whether a symbol with an unbounded range makes `terms` arbitrarily negative, regardless of
        facts."""
        for monomial, scale in terms.items():
            if len(monomial) != 1 or (name := monomial[0].symbol) is None or (name, scale > 0) in self._signs:
                continue
            range_ = self._ranges.get(name, _ANY)
            if (range_.lo if scale > 0 else range_.hi) is None:
                others = (factor for other in terms if other is not monomial for factor in other)
                if not any(name in factor.free_symbols for factor in others):
                    return True
        return False

    def _near(self, terms: Terms) -> Iterator[Terms]:
        """The facts that may cancel one of the terms, in order."""
        places: set[int] = set()
        for own, scale in terms.items():
            for factor in own:
                places.update(self._places.get((factor, scale > 0), ()))
        return (self._facts[place] for place in sorted(places))

    def _without(self, terms: dict[Monomial, int], fact: Terms) -> list[dict[Monomial, int]]:
        """`terms` minus a multiple of a fact, for each multiple that cancels one of the terms."""
        remainders = []
        for own, scale in terms.items():
            for other, by in fact.items():
                if not other or (scale > 0) is not (by > 0):
                    continue
                factor = _quotient(own, other)
                if factor is not None and self._is_nonneg(factor):
                    remainders.append(_less(terms, scale, fact, by, factor))
        return remainders

    def _is_nonneg(self, factor: Monomial) -> bool:
        for one in factor:
            low = bounds(one, self._ranges).lo
            if low is None or low < 0:
                return False
        return True


def _quotient(monomial: Monomial, by: Monomial) -> Monomial | None:
    rest = list(monomial)
    for factor in by:
        if factor not in rest:
            return None
        rest.remove(factor)
    return tuple(rest)


def _less(terms: Terms, scale: int, fact: Terms, by: int, factor: Monomial) -> dict[Monomial, int]:
    """`|by|*terms - |scale|*factor*fact`, in lowest terms."""
    common = gcd(scale, by)
    ours, theirs = abs(by) // common, abs(scale) // common
    result = {monomial: ours * own for monomial, own in terms.items()}
    for monomial, own in fact.items():
        product = tuple(sorted((*monomial, *factor), key=factor_key))
        result[product] = result.get(product, 0) - theirs * own
    return {monomial: own for monomial, own in result.items() if own}


def meet(a: Interval, b: Interval) -> Interval:
    """The intersection of both intervals; `a` if it is empty."""
    lows = [x for x in (a.lo, b.lo) if x is not None]
    highs = [x for x in (a.hi, b.hi) if x is not None]
    try:
        return Interval(max(lows, default=None), min(highs, default=None))
    except ExpressionError:
        return a
