"""Facts that a function has checked: ranges of symbols, inequalities of several symbols, and conditions
verbatim."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from wrapper_ir.errors import ExpressionError
from wrapper_ir.expr import Expr, Int, Interval, Monomial, Operator, Sym, SymKind, add, expand, sub
from wrapper_ir.expr.operators import AND, COMPARISONS, EQ, GE, GT, LE, LT, NE, OR
from wrapper_ir.verifier.inequalities import meet

_MAX_FACTS = 24
_ANY = Interval()
_Form = frozenset[tuple[Monomial, int]] | Expr


class Assumptions:
    """Facts about symbols, which grow during the walk over a function. `ranges` are those about single
    symbols."""

    def __init__(self, ranges: dict[str, Interval]) -> None:
        self.ranges = ranges
        self._facts: dict[str, dict[_Form, tuple[int, Expr]]] = {}
        """Nonnegative int expressions, by each of their symbols and by their terms without the constant: of
        expressions that differ only in the constant, the strongest."""
        self._choices: dict[str, list[Expr]] = {}
        self._conditions: set[Expr] = set()

    def has(self, condition: Expr) -> bool:
        """Returns whether exactly this condition was checked."""
        return condition in self._conditions

    def within(self, name: str, range_: Interval) -> None:
        """Adds the fact that a symbol is in a range."""
        self.ranges[name] = meet(self.ranges.get(name, _ANY), range_)

    def nonneg(self, e: Expr) -> None:
        """Adds the fact that an int expression is not negative."""
        if e.integer is not None or e.free_atoms:
            return
        if len(e.free_symbols) == 1 and self._tighten(e):
            return
        constant, form = _form(e)
        for name in e.free_symbols:
            facts = self._facts.setdefault(name, {})
            last = facts.pop(form, None)
            facts[form] = (constant, e) if last is None or constant < last[0] else last

    def _tighten(self, e: Expr) -> bool:
        """Adds `scale*symbol + rest >= 0` as a range; returns False if `e` has another form."""
        poly = expand(e)
        factors = [monomial for monomial in poly.terms if monomial]
        if len(factors) != 1 or len(factors[0]) != 1 or (name := factors[0][0].symbol) is None:
            return False
        scale, rest = poly.terms[factors[0]], poly.constant
        limit = -(rest // scale) if scale > 0 else rest // -scale
        self.within(name, Interval(limit, None) if scale > 0 else Interval(None, limit))
        return True

    def holds(self, condition: Expr) -> None:
        """Adds the fact that a condition holds."""
        self._conditions.add(condition)
        if condition.op is AND:
            for arg in condition.args:
                self.holds(arg)
        elif condition.op is OR:
            for name in condition.free_symbols:
                self._choices.setdefault(name, []).append(condition)
        elif _compares_ints(condition):
            if condition.op is NE:
                self._differ(*condition.args)
            for fact in _facts_of(condition):
                self.nonneg(fact)

    def _differ(self, lhs: Expr, rhs: Expr) -> None:
        """Narrows the range of a symbol that differs from an end of it."""
        match lhs, rhs:
            case (Sym(name), Int(value)) | (Int(value), Sym(name)):
                range_ = self.ranges.get(name, _ANY)
                if range_.lo == value:
                    self.within(name, Interval(value + 1, None))
                if range_.hi == value:
                    self.within(name, Interval(None, value - 1))
            case _:
                pass

    def about(
        self, names: frozenset[str], positive: Sequence[Expr]
    ) -> Iterator[tuple[list[Expr], frozenset[str]]]:
        """Yields expressions that are not negative if `positive` ones are at least 1, and all their symbols:
        first those over these symbols alone, then those over symbols that occur together with them."""
        # a symbol that is at least 1 has a range, so it needs no fact
        sizes = {add(size, -1): None for size in positive if size.integer is None and size.symbol is None}
        names = names.union(*(size.free_symbols for size in positive))
        near = dict(sizes)
        for name in sorted(names):
            near |= {fact: None for fact in self._of(name, positive) if fact.free_symbols <= names}
        if near:
            yield list(near)[:_MAX_FACTS], names
        around = self._around(names, positive, sizes)
        if around.keys() - near.keys():
            yield list(around), names.union(*(e.free_symbols for e in around))

    def _around(
        self, names: frozenset[str], positive: Sequence[Expr], sizes: dict[Expr, None]
    ) -> dict[Expr, None]:
        """Returns at most `_MAX_FACTS` facts. Symbols with few facts come first, because each of theirs is
        more specific."""
        facts = dict(sizes)
        pending, visited = set(names), set(names)
        while pending and len(facts) < _MAX_FACTS:
            name = min(pending, key=lambda name: (len(self._facts.get(name, ())), name))
            pending.remove(name)
            for fact in self._of(name, positive):
                if len(facts) < _MAX_FACTS and fact not in facts:
                    facts[fact] = None
                    pending |= fact.free_symbols - visited
                    visited |= fact.free_symbols
        return facts

    def _of(self, name: str, positive: Sequence[Expr]) -> list[Expr]:
        """The latest facts about a symbol."""
        facts = [fact for _, fact in islice(reversed(self._facts.get(name, {}).values()), _MAX_FACTS)]
        choices = self._choices.get(name, [])[-_MAX_FACTS:]
        return [*facts[::-1], *(fact for choice in choices for fact in _remaining(choice, positive))]


def _form(e: Expr) -> tuple[int, _Form]:
    """The constant of an int expression, and its other terms."""
    try:
        poly = expand(e)
    except ExpressionError:
        return 0, e  # too many terms
    return poly.constant, frozenset((monomial, scale) for monomial, scale in poly.terms.items() if monomial)


def _compares_ints(condition: Expr) -> bool:
    return condition.op in COMPARISONS and all(side.kind is SymKind.INT for side in condition.args)


def _facts_of(condition: Expr) -> list[Expr]:
    """The expressions that are not negative if a comparison of ints holds."""
    lhs, rhs = condition.args
    if condition.op is EQ:
        return [sub(lhs, rhs), sub(rhs, lhs)]
    facts: dict[Operator | None, Expr] = {
        LE: sub(rhs, lhs),
        LT: sub(sub(rhs, lhs), 1),
        GE: sub(lhs, rhs),
        GT: sub(sub(lhs, rhs), 1),
    }
    return [facts[condition.op]] if condition.op in facts else []


def _remaining(choice: Expr, positive: Sequence[Expr]) -> list[Expr]:
    """Facts from a disjunction in which all operands except one claim that a positive size is 0."""
    remaining = [arg for arg in choice.args if not _is_zero_of(arg, positive)]
    if len(remaining) != 1:
        return []
    parts = remaining[0].args if remaining[0].op is AND else (remaining[0],)
    return [fact for part in parts if _compares_ints(part) for fact in _facts_of(part)]


def _is_zero_of(arg: Expr, positive: Sequence[Expr]) -> bool:
    return arg.op is EQ and arg.args[1] == Int(0) and arg.args[0] in positive
