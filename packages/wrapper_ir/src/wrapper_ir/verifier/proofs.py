"""Decides claims about symbolic sizes: proved from facts that are checked at run time, disproved, or left
open.

A proof may use definitions (a size is not negative), earlier assertions of the program, and claims that were
left open before, because these are checked at run time. If these do not suffice, it uses declared ranges and
notes them, so that they are checked too. A claim is disproved if it fails for all sizes in range.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from math import gcd

from wrapper_ir.analysis.memo import Analyses
from wrapper_ir.errors import ExpressionError
from wrapper_ir.expr import (
    Expr,
    Int,
    Interval,
    SymKind,
    add,
    and_,
    as_expr,
    bounds,
    eq,
    mod,
    mul,
    or_,
    sub,
    substitute,
)
from wrapper_ir.expr.operators import EQ
from wrapper_ir.verifier.assumptions import Assumptions
from wrapper_ir.verifier.conditions import at_most
from wrapper_ir.verifier.inequalities import Terms, follows, meet, nonneg, terms_of
from wrapper_ir.verifier.obligations import Claim, Obligations, Side, Size, Verdict, as_numbers

_DEPTH = 8
_FALSE = or_()
_ZERO = Int(0)
_ANY = Interval()
_Inequality = tuple[Size, Size]


def shown(size: Size) -> str:
    """A size for messages."""
    return str(size)


class Proofs:
    """Claims within one function; definitions and assertions are added as the walk visits them. Symbols in
    `trusted` are in their declared ranges."""

    def __init__(
        self, analyses: Analyses, obligations: Obligations, trusted: frozenset[str] = frozenset()
    ) -> None:
        self._declared = _declared(analyses)
        self._dependencies = obligations.ranges
        ranges = {name: self._declared[name] for name in trusted if name in self._declared}
        self._assumptions = Assumptions(ranges)
        self._definitions: dict[str, Expr] = {}
        self._proved: set[Claim] = set()

    # --- facts

    def define(self, symbol: str, source: Expr, expr: Expr) -> None:
        """Adds the fact that `symbol` is `source`, which equals `expr` according to types."""
        if source.kind is SymKind.INT:
            self._assumptions.within(symbol, bounds(source, self._assumptions.ranges))
        if not expr.free_atoms and symbol not in expr.free_symbols:
            self._definitions.setdefault(symbol, expr)

    def assume(self, condition: Expr) -> None:
        """Adds a condition that is checked before the following ops run."""
        if condition.op is EQ:
            for side, other in (condition.args, condition.args[::-1]):
                if side.symbol is not None and self._is_free(side.symbol, other):
                    self._definitions[side.symbol] = other
                    break
        self._assumptions.holds(condition)

    def _is_free(self, name: str, other: Expr) -> bool:
        """Returns whether a symbol can be replaced by an equal expression."""
        if name in self._definitions or other.free_atoms:
            return False
        return name not in self._reduce(other).free_symbols

    def exists(self, sizes: Iterable[Expr]) -> None:
        """Adds the fact that a tensor of these sizes exists, so none is negative."""
        for size in sizes:
            if size.kind is SymKind.INT:
                self._assumptions.nonneg(size)

    # --- deciding

    def decide(self, claim: Claim) -> tuple[Verdict, Expr]:
        """The verdict, and the condition to check at run time (false unless open). An open claim is assumed
        from here on."""
        if claim in self._proved or self._is_proved(claim):
            self._proved.add(claim)
            return Verdict.PROVED, _FALSE
        if self._is_refuted(claim):
            return Verdict.DISPROVED, _FALSE
        condition = self._condition(claim)
        self._proved.add(claim)
        if self._assumptions.has(condition):
            return Verdict.PROVED, _FALSE
        self.assume(condition)
        return Verdict.OPEN, condition

    def multiple(self, divisor: int, e: Size, unless: tuple[Expr, ...] = ()) -> tuple[Verdict, Expr]:
        """Like `decide`, for the claim that `e` is a multiple of `divisor`, or that one of `unless` is 0."""
        terms: Terms = {(): e} if isinstance(e, int) else terms_of(self._reduce(e))
        if not any(scale % divisor for scale in terms.values()):
            return Verdict.PROVED, _FALSE
        if not any(scale % divisor for monomial, scale in terms.items() if monomial):
            return self.decide(Claim((), unless))
        if self._is_proved(Claim((), unless)):
            return Verdict.PROVED, _FALSE
        multiple = eq(mod(e, divisor), 0)
        condition = or_(self._condition(Claim((), unless)), multiple)
        if self._assumptions.has(multiple) or self._are_multiples(divisor, terms):
            return Verdict.PROVED, _FALSE
        if self._assumptions.has(condition):
            return Verdict.PROVED, _FALSE
        self.assume(condition)
        return Verdict.OPEN, condition

    def _are_multiples(self, divisor: int, terms: Terms) -> bool:
        """Returns whether assertions make each term a multiple: its monomial is one of the missing factor."""
        missing = {m: divisor // gcd(scale, divisor) for m, scale in terms.items() if scale % divisor}
        return all(m and self._assumptions.has(eq(mod(mul(*m), by), 0)) for m, by in missing.items())

    def proves(self, lhs: Size, rhs: Size) -> bool:
        """Returns whether `lhs <= rhs` is proved."""
        return self._le(lhs, rhs, ())

    def negative(self, e: Expr) -> bool:
        """Returns whether `e`, which is not a constant, is negative for all sizes in range."""
        return e.kind is SymKind.INT and e.integer is None and self._le(e, -1, (), depends=False)

    def differ(self, a: Expr, b: Expr) -> bool:
        """Returns whether two sizes differ for all sizes in range."""
        return a is not b and (self._exceeds(a, b) or self._exceeds(b, a))

    def _is_proved(self, claim: Claim) -> bool:
        """Returns whether it holds if none of `unless` is 0."""
        if _ZERO in claim.unless:
            return True
        sizes = _symbolic(claim.unless)
        return any(all(self._le(a, b, sizes) for a, b in alternative) for alternative in claim.either)

    def _is_refuted(self, claim: Claim) -> bool:
        return all(self._exceeds(n, 0) for n in claim.unless) and all(
            any(self._exceeds(a, b) for a, b in alternative) for alternative in claim.either
        )

    def _exceeds(self, a: Size, b: Size) -> bool:
        """Returns whether `a > b` for all sizes in range."""
        return self._le(add(b, 1), a, (), depends=False)

    def _condition(self, claim: Claim) -> Expr:
        sizes = _symbolic(claim.unless)
        excuses = [eq(n, 0) for n in sizes if not nonneg(sub(n, 1), self._assumptions.ranges)]
        return or_(*excuses, *(self._conjunction(alternative, sizes) for alternative in claim.either))

    def _conjunction(self, alternative: tuple[_Inequality, ...], sizes: tuple[Expr, ...]) -> Expr:
        unproved = [(as_expr(a), as_expr(b)) for a, b in alternative if not self._le(a, b, sizes)]
        if len(unproved) == 2 and unproved[0] == unproved[1][::-1]:
            return eq(*unproved[0])
        return and_(*(at_most(a, b) for a, b in unproved))

    def _le(self, a: Size, b: Size, sizes: tuple[Expr, ...], *, depends: bool = True) -> bool:
        """Returns whether `a <= b` if `sizes` are at least 1. If `depends`, notes the declared ranges that it
        uses."""
        if a is b:
            return True
        if (numbers := as_numbers(a, b)) is not None:
            return numbers[0] <= numbers[1]
        try:
            return self._follows(sub(b, a), sizes, depends)
        except ExpressionError:
            return False  # the polynomial is too large

    def _follows(self, e: Expr, sizes: tuple[Expr, ...], depends: bool) -> bool:
        ranges = self._assumptions.ranges
        if nonneg(e, ranges):
            return True
        reduced = self._reduce(e)
        if reduced is not e and nonneg(reduced, ranges):
            return True
        names = e.free_symbols | reduced.free_symbols
        if bounds(reduced, {name: self._range(name, (Side.LOWER, Side.UPPER)) for name in names}).high < 0:
            return False  # no facts can prove it
        if self._at_levels(reduced, names, sizes, [], depends):
            return True
        for facts, beside in self._assumptions.about(names, sizes):
            terms = [terms_of(self._reduce(fact)) for fact in facts]
            if self._at_levels(reduced, names | beside, sizes, terms, depends):
                return True
        return False

    def _at_levels(
        self, e: Expr, names: frozenset[str], sizes: tuple[Expr, ...], facts: list[Terms], depends: bool
    ) -> bool:
        """Tries assumptions alone, then also declared lower ends, then declared ranges."""
        before: dict[str, Interval] | None = None
        for sides in ((), (Side.LOWER,), (Side.LOWER, Side.UPPER)):
            ranges = {name: self._range(name, sides) for name in names}
            if ranges == before:
                continue
            before = dict(ranges)
            for size in sizes:
                if size.symbol in ranges:
                    ranges[size.symbol] = meet(ranges[size.symbol], Interval(1, None))
            if nonneg(e, ranges) or follows(e, ranges, facts):
                if depends:
                    self._depend_on(names, sides)
                return True
        return False

    def _range(self, name: str, sides: tuple[Side, ...]) -> Interval:
        own, declared = self._assumptions.ranges.get(name, _ANY), self._declared.get(name, _ANY)
        low = declared.lo if Side.LOWER in sides else None
        high = declared.hi if Side.UPPER in sides else None
        return meet(own, Interval(low, high))

    def _depend_on(self, names: frozenset[str], sides: tuple[Side, ...]) -> None:
        for name in names:
            own = self._assumptions.ranges.get(name, _ANY)
            for side in sides:
                narrowed = self._range(name, (side,))
                if narrowed != own:
                    self._dependencies.setdefault(name, set()).add(side)
                    self._assumptions.within(name, narrowed)

    def _reduce(self, e: Expr) -> Expr:
        for _ in range(_DEPTH):
            mapping: dict[str | Expr, Expr] = {
                s: self._definitions[s] for s in e.free_symbols if s in self._definitions
            }
            if not mapping:
                break
            e = substitute(e, mapping)
        return e


def _symbolic(sizes: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """The sizes that are not constants."""
    return tuple([n for n in sizes if n.integer is None])


def _declared(analyses: Analyses) -> dict[str, Interval]:
    ranges = {}
    for name, symbol in analyses.symbols.items():
        if symbol.kind is SymKind.INT:
            with suppress(ExpressionError):  # an empty range, which is reported elsewhere
                ranges[name] = Interval(symbol.lower, symbol.upper)
    return ranges
