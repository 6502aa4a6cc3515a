"""What all infix printers share: precedences, and how sums and products read.

The output is faithful: nested sums and products keep their parentheses, so that a reader of the text can
rebuild the very same nodes. Targets differ in a few methods and in the table that dispatches on node types.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Mapping

from wrapper_ir.expr.base import Expr
from wrapper_ir.expr.nodes import Add, And, Cmp, Float, Int, Mul, Not, Or

__all__ = ["InfixPrinter", "Level", "is_number"]


class Level(enum.IntEnum):
    """How tightly a text holds together."""

    TERNARY = 0
    OR = 1
    AND = 2
    NOT = 3
    COMPARE = 4
    SUM = 5
    PRODUCT = 6
    SIGN = 7
    POWER = 8
    ATOM = 9


Rendered = tuple[str, Level]


def is_number(e: Expr) -> bool:
    """True for int and float constants, the two nodes whose text may start with a sign of its own."""
    return isinstance(e, Int | Float)


class InfixPrinter:
    """Base of the printers; subclasses fill `table` and may override how operands and literals are written."""

    times = "*"
    logic_words: Mapping[type[Expr], str] = {And: " and ", Or: " or "}
    not_word = "not "
    not_level = Level.NOT
    or_operand = Level.AND
    least_int: int | None = None
    """The least int of the target, whose negation it cannot write."""

    def __init__(self) -> None:
        self._table = self.table()

    def table(self) -> Mapping[type[Expr], Callable[[Expr], Rendered]]:
        """A function for every node type."""
        raise NotImplementedError

    def render(self, e: Expr) -> Rendered:
        """Text of `e` and how tightly it holds together."""
        return self._table[type(e)](e)

    def text(self, e: Expr) -> str:
        """Text of `e` where anything may stand."""
        return self.render(e)[0]

    def at(self, e: Expr, level: Level) -> str:
        """Text of `e` where it must hold together at least as tightly as `level`."""
        text, own = self.render(e)
        return text if own >= level else f"({text})"

    def number(self, e: Int | Float) -> str:
        """Text of a constant; negative ones start with `-`."""
        raise NotImplementedError

    def arithmetic(self, parent: Expr, e: Expr, level: Level) -> str:
        """Text of an operand of a sum or product `parent`; a target that needs conversions puts them here."""
        return self.at(e, level)

    def truth(self, e: Expr, level: Level) -> str:
        """Text of an operand of a logic operator."""
        return self.at(e, level)

    def literal(self, e: Expr) -> Rendered:
        """A number; signed ones need parentheses as the base of a power."""
        assert isinstance(e, Int | Float)
        text = self.number(e)
        return text, Level.SIGN if text.startswith("-") else Level.ATOM

    def sum(self, e: Expr) -> Rendered:
        """`a + b - c`."""
        assert isinstance(e, Add)
        parts = [self.arithmetic(e, e.args[0], Level.PRODUCT)]
        for arg in e.args[1:]:
            parts.append(self._next_term(e, arg))
        return "".join(parts), Level.SUM

    def _next_term(self, parent: Add, e: Expr) -> str:
        if isinstance(e, Int | Float) and e.value != self.least_int and math.copysign(1, e.value) < 0:
            opposite = Int(-e.value) if isinstance(e, Int) else Float(-e.value)
            return f" - {self.arithmetic(parent, opposite, Level.ATOM)}"
        if isinstance(e, Mul) and e.kind is parent.kind:
            first, *rest = e.args
            if isinstance(first, Int) and first.value < 0 and first.value != self.least_int:
                return f" - {self._scaled(e, -first.value, tuple(rest))}"
        return f" + {self.arithmetic(parent, e, Level.PRODUCT)}"

    def _scaled(self, product: Mul, scale: int, rest: tuple[Expr, ...]) -> str:
        """`scale*rest` after a minus sign; 1 is left out unless a number after it would take its place."""
        if scale != 1 or is_number(rest[0]):
            return self._factors(product, (Int(scale), *rest))
        if len(rest) == 1 and isinstance(rest[0], Mul):
            return f"({self.text(rest[0])})"
        return self._factors(product, rest)

    def product(self, e: Expr) -> Rendered:
        """`2*a*b`, or `-a*b` where the first factor is -1."""
        assert isinstance(e, Mul)
        if e.args[0] == Int(-1) and not is_number(e.args[1]):
            rest = "".join(f"{self.times}{self.arithmetic(e, arg, Level.SIGN)}" for arg in e.args[2:])
            return f"-{self.arithmetic(e, e.args[1], Level.POWER)}{rest}", Level.PRODUCT
        return self._factors(e, e.args), Level.PRODUCT

    def _factors(self, parent: Expr, factors: tuple[Expr, ...]) -> str:
        first = factors[0]
        # A product as the first factor of a longer one would be read as part of it.
        tight = Level.SIGN if isinstance(first, Mul) and len(factors) > 1 else Level.PRODUCT
        texts = [self.arithmetic(parent, first, tight)]
        texts += [self.arithmetic(parent, factor, Level.SIGN) for factor in factors[1:]]
        return self.times.join(texts)

    def compare(self, e: Expr) -> Rendered:
        """`a <= b`; comparisons never chain."""
        assert isinstance(e, Cmp)
        return f"{self.at(e.lhs, Level.SUM)} {e.op.value} {self.at(e.rhs, Level.SUM)}", Level.COMPARE

    def logic(self, e: Expr) -> Rendered:
        """`a and b`, `a or b`."""
        assert isinstance(e, And | Or)
        own, operand = (Level.AND, Level.NOT) if isinstance(e, And) else (Level.OR, self.or_operand)
        return self.logic_words[type(e)].join(self.truth(arg, operand) for arg in e.args), own

    def negation(self, e: Expr) -> Rendered:
        """`not a`."""
        assert isinstance(e, Not)
        return f"{self.not_word}{self.truth(e.arg, self.not_level)}", self.not_level
