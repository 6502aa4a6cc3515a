"""Inequalities between symbolic sizes: proven from ranges and definitions, or at least never seen to fail.

What cannot be proven is tried on many assignments that fit the symbols' ranges and the program's own assertions;
one failure refuses the claim. Sizes that depend on a relation which the program nowhere states are refused so, and
an `assert` before the op is the way out.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

from wrapper_ir.errors import ExpressionError
from wrapper_ir.expr import Cmp, CmpOp, Expr, Int, Sym, SymKind, as_expr, mod
from wrapper_ir.expr.evaluate import evaluate
from wrapper_ir.expr.interval import Interval
from wrapper_ir.expr.ranges import bounds, prove_le
from wrapper_ir.expr.rewrite import substitute
from wrapper_ir.expr.text import print_expr
from wrapper_ir.index import ProgramIndex
from wrapper_ir.program import SymbolDef

__all__ = ["Proofs", "Size", "shown"]

_SAMPLES = 64
_SPAN = 512
_DEPTH = 8
Size = int | Expr


def shown(size: Size) -> str:
    """A size for messages."""
    return str(size) if isinstance(size, int) else print_expr(size)


class Proofs:
    """Proofs within one function; definitions and assertions come in as the walk passes them."""

    def __init__(self, index: ProgramIndex) -> None:
        self._index = index
        self._ranges = _ranges(index)
        self._definitions: dict[str, Expr] = {}
        self._facts: list[Expr] = []
        self._negative: dict[Expr, bool] = {}
        self._proven: dict[tuple[Expr, Expr], bool] = {}
        self._refuted: dict[tuple[Expr, Expr], tuple[int, int]] = {}

    def define(self, symbol: str, expr: Expr) -> None:
        """`symbol` equals `expr`, which looks at no value."""
        if symbol not in expr.free_symbols:
            self._definitions.setdefault(symbol, expr)

    def assume(self, condition: Expr) -> None:
        """An assertion that the program makes before what follows."""
        if isinstance(condition, Cmp) and condition.op is CmpOp.EQ:
            for side, other in ((condition.lhs, condition.rhs), (condition.rhs, condition.lhs)):
                if isinstance(side, Sym) and side.name not in self._definitions and not other.free_values:
                    self.define(side.name, other)
                    break
        self._facts.append(condition)

    def le(self, lhs: Size, rhs: Size) -> bool:
        """Whether `lhs <= rhs` holds, as far as can be known."""
        if lhs.__class__ is int and rhs.__class__ is int:
            return lhs <= rhs
        a, b = as_expr(lhs), as_expr(rhs)
        key = (a, b)
        if a is b or key in self._proven:
            return True
        known = (len(self._facts), len(self._definitions))
        if self._refuted.get(key) == known:
            return False
        holds = self._le(a, b)
        if holds:
            self._proven[key] = True
        else:
            self._refuted[key] = known
        return holds

    def negative(self, e: Expr) -> bool:
        """Whether `e` is below 0 for every assignment in range."""
        known = self._negative.get(e)
        if known is None:
            known = self._negative[e] = self._is_negative(e)
        return known

    def _is_negative(self, e: Expr) -> bool:
        try:
            high = bounds(e, self._ranges).hi
        except ExpressionError:
            return False
        return high is not None and high < 0

    def divides(self, divisor: int, e: Size) -> bool:
        """Whether `e` is a multiple of `divisor`, as far as can be known."""
        if isinstance(e, int):
            return e % divisor == 0
        if divisor == 1:
            return True
        rest = mod(e, divisor)
        return rest.value == 0 if isinstance(rest, Int) else self.le(rest, 0)

    def equal(self, a: Expr, b: Expr) -> bool:
        """Whether two sizes are equal, as far as can be known."""
        return a is b or (self.le(a, b) and self.le(b, a))

    def differ(self, a: Expr, b: Expr) -> bool:
        """Whether two sizes are surely different: as numbers, or under the hints, for which every relation between
        sizes holds that the program was captured with."""
        if a is b:
            return False
        if isinstance(a, Int) and isinstance(b, Int):
            return a.value != b.value
        a, b = self._reduce(a), self._reduce(b)
        symbols = {s: self._index.symbols.get(s) for s in a.free_symbols | b.free_symbols}
        hints = {s: d.hint for s, d in symbols.items() if d is not None and d.hint is not None}
        try:
            return len(hints) == len(symbols) and evaluate(a, hints) != evaluate(b, hints)
        except ExpressionError:
            return False

    def _le(self, a: Expr, b: Expr) -> bool:
        try:
            if prove_le(a, b, self._ranges):
                return True
            a, b = self._reduce(a), self._reduce(b)
            return prove_le(a, b, self._ranges) or self._never_fails(a, b)
        except ExpressionError:
            return False

    def _reduce(self, e: Expr) -> Expr:
        for _ in range(_DEPTH):
            mapping: dict[str | Expr, Expr] = {
                s: self._definitions[s] for s in e.free_symbols if s in self._definitions
            }
            if not mapping:
                break
            e = substitute(e, mapping)
        return e

    def _never_fails(self, a: Expr, b: Expr) -> bool:
        facts = self._related(a.free_symbols | b.free_symbols)
        names = sorted(frozenset().union(a.free_symbols, b.free_symbols, *(f.free_symbols for f in facts)))
        for env in self._assignments(names):
            try:
                if all(evaluate(f, env) for f in facts) and not evaluate(a, env) <= evaluate(b, env):
                    return False
            except ExpressionError:
                continue
        return True

    def _related(self, symbols: frozenset[str]) -> list[Expr]:
        """Assertions that speak about these symbols or about symbols that such an assertion names."""
        facts = [f for f in (self._reduce(f) for f in self._facts) if not f.free_values and f.free_symbols]
        chosen: list[Expr] = []
        while True:
            more = [f for f in facts if f not in chosen and f.free_symbols & symbols]
            if not more:
                return chosen
            chosen += more
            symbols = symbols.union(*(f.free_symbols for f in more))

    def _assignments(self, names: list[str]) -> Iterator[dict[str, int | float | bool]]:
        """Assignments in range: the hints, both ends, and random ones (the same in every run)."""
        rng = random.Random(0)
        choices = [self._candidates(name) for name in names]
        for k in range(3):
            yield {name: c[min(k, len(c) - 1)] for name, c in zip(names, choices)}
        for _ in range(_SAMPLES):
            yield {name: rng.choice(c) for name, c in zip(names, choices)}

    def _candidates(self, name: str) -> list[int | float | bool]:
        symbol = self._index.symbols.get(name) or SymbolDef(name=name)
        if symbol.kind is SymKind.BOOL:
            return [False, True]
        low = 0 if symbol.lower is None else symbol.lower
        high = low + _SPAN if symbol.upper is None else min(symbol.upper, low + _SPAN)
        hint = symbol.hint if isinstance(symbol.hint, int) and low <= symbol.hint else low
        spread = {
            low,
            low + 1,
            low + 2,
            low + 3,
            low + 7,
            low + 16,
            low + 97,
            hint + 1,
            (low + high) // 2,
            high,
        }
        inside = sorted(n for n in spread if low <= n <= max(high, hint))
        return [hint, low, max(low, high), *inside]


def _ranges(index: ProgramIndex) -> dict[str, Interval]:
    found = {}
    for name, symbol in index.symbols.items():
        if symbol.kind is SymKind.INT:
            try:
                found[name] = Interval(symbol.lower, symbol.upper)
            except ExpressionError:
                continue  # an empty range, which is a finding of its own
    return found
