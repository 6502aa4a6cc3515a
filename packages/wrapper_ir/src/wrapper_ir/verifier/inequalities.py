"""Proofs that a polynomial of sizes is not negative, from ranges and from facts (polynomials that are not)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import gcd

from wrapper_ir.errors import ExpressionError
from wrapper_ir.expr import Expr, Int, Interval, Monomial, Poly, bounds, expand, prove_nonneg
from wrapper_ir.expr.operators import MUL
from wrapper_ir.expr.order import factor_key

Terms = Mapping[Monomial, int]
Ranges = Mapping[str, Interval]
_Places = Mapping[tuple[Expr, bool], Sequence[int]]
"""The places of facts, by the first factor of each of their monomials, and whether that one is added."""

_DEPTH = 3
_STEPS = 48
_MAX_TERMS = 24


def terms_of(e: Expr) -> Terms:
    """The polynomial of an int expression."""
    return expand(e).terms


def nonneg(e: Expr, ranges: Ranges) -> bool:
    """Whether `e >= 0` follows from the ranges; False says nothing."""
    if isinstance(e, Int):
        return e.value >= 0
    if prove_nonneg(e, ranges):
        return True
    return e.op is MUL and all(prove_nonneg(factor, ranges) for factor in e.args)


def follows(e: Expr, ranges: Ranges, facts: Sequence[Terms]) -> bool:
    """Whether `e >= 0` follows from the ranges and from facts, which are polynomials that are not negative."""
    if not facts:
        return False
    terms = dict(terms_of(e))
    if len(terms) > _MAX_TERMS:
        return False
    # By depth: what follows from one fact is found however many other facts there are.
    places = _places(facts)
    return any(_Search(ranges, facts, places).reaches(terms, depth) for depth in range(1, _DEPTH + 1))


def _places(facts: Sequence[Terms]) -> _Places:
    found: dict[tuple[Expr, bool], list[int]] = {}
    for place, fact in enumerate(facts):
        for monomial, scale in fact.items():
            if monomial:
                found.setdefault((monomial[0], scale > 0), []).append(place)
    return found


class _Search:
    """Takes facts, times factors that are not negative, off a polynomial until what is left is not negative."""

    def __init__(self, ranges: Ranges, facts: Sequence[Terms], places: _Places) -> None:
        self._ranges = ranges
        self._facts = facts
        self._places = places
        self._steps = _STEPS
        self._seen: set[frozenset[tuple[Monomial, int]]] = set()

    def reaches(self, terms: dict[Monomial, int], depth: int) -> bool:
        key = frozenset(terms.items())
        if key in self._seen or self._steps <= 0:
            return False
        self._seen.add(key)
        self._steps -= 1 + len(terms) // _MAX_TERMS
        if nonneg(Poly(terms).to_expr(), self._ranges):
            return True
        if depth == 0 or len(terms) > _MAX_TERMS:
            return False
        for fact in self._near(terms):
            if self._steps <= 0:
                return False
            if any(self.reaches(rest, depth - 1) for rest in self._without(terms, fact)):
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
        """`terms` less multiples of a fact, each of which cancels one of the terms."""
        found = []
        for own, scale in terms.items():
            for other, by in fact.items():
                if not other or (scale > 0) is not (by > 0):
                    continue
                factor = _quotient(own, other)
                if factor is not None and self._is_nonneg(factor):
                    found.append(_less(terms, scale, fact, by, factor))
        return found

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
    """What is in both; `a` where nothing is."""
    lows = [x for x in (a.lo, b.lo) if x is not None]
    highs = [x for x in (a.hi, b.hi) if x is not None]
    try:
        return Interval(max(lows, default=None), min(highs, default=None))
    except ExpressionError:
        return a
