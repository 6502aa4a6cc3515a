"""Base of all printers: expands the spellings of operators, and writes readable sums and products.

Nested sums and products keep their parentheses, so that parsing the text rebuilds the same nodes. Targets
override a few methods and read different columns of `Operator`.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from wrapper_ir.errors import ExpressionError
from wrapper_ir.expr.base import Expr, Operator, SymKind
from wrapper_ir.expr.leaves import Bool, Float, Int, Sym
from wrapper_ir.expr.operators import ADD, MUL
from wrapper_ir.expr.spelling import Coercion, Level, Slot, Spelling

LeafName = Callable[[Expr], str]
"""Writes a symbol or an atom in the target language, as text that needs no parentheses."""
_Rendered = tuple[str, Level]
_MINUS_ONE = Int(-1)
_KINDS = {Coercion.INT: SymKind.INT, Coercion.FLOAT: SymKind.FLOAT, Coercion.BOOL: SymKind.BOOL}


def own_name(readable: Callable[[str], bool]) -> LeafName:
    """Returns a writer of symbols by their names.

    It raises ExpressionError WIR403 for a name that is not valid in the target (`class`), and for an atom.
    """

    def name(e: Expr) -> str:
        if type(e) is Sym and readable(e.name):
            return e.name
        hint = "pass name= to say how symbols and atoms are written"
        raise ExpressionError("WIR403", f"{e} has no spelling here", hint=hint)

    return name


class Printer:
    """Base of the printers, one per target. `leaf` writes symbols and atoms."""

    truth_words = ("False", "True")
    least_int: int | None = None
    """The least int of the target, whose negation it cannot represent; None: no such int."""

    def __init__(self, leaf: LeafName) -> None:
        self.leaf = leaf

    def spelling(self, op: Operator, e: Expr) -> Spelling:
        """Returns the target's spelling of the operator of `e`."""
        raise NotImplementedError

    def number(self, value: float) -> str:
        """Writes a number; negative ones start with `-`."""
        raise NotImplementedError

    def as_kind(self, kind: SymKind, e: Expr, level: Level) -> str:
        """Writes `e` converted to `kind`; targets without conversions write `e`."""
        return self.at(e, level)

    def text(self, e: Expr) -> str:
        """Writes `e` without outer parentheses."""
        return self.render(e)[0]

    def at(self, e: Expr, level: Level) -> str:
        """Writes `e`, in parentheses if it binds less tightly than `level`."""
        text, own = self.render(e)
        return text if own >= level else f"({text})"

    def render(self, e: Expr) -> _Rendered:
        """Writes `e`; returns also the level at which the text binds."""
        op = e.op
        if op is None:
            return self._plain(e)
        if op is ADD:
            return self._sum(e), Level.SUM
        if op is MUL:
            return self._product(e), Level.PRODUCT
        spelling = self.spelling(op, e)
        if op.arity or len(e.args) < 3 or spelling.takes_all:
            texts = [before + self._slot(e, slot) for before, slot in spelling.slots]
            return "".join(texts) + spelling.tail, spelling.level
        return self._pairs(e, spelling), spelling.level

    def _plain(self, e: Expr) -> _Rendered:
        value = e.constant
        if value is None:
            return self.leaf(e), Level.ATOM
        if value is True or value is False:
            return self.truth_words[value], Level.ATOM
        text = self.number(value)
        return text, Level.SIGN if text.startswith("-") else Level.ATOM

    def _slot(self, e: Expr, slot: Slot) -> str:
        if slot.index < 0:
            return ", ".join([self._operand(e, arg, slot) for arg in e.args])
        return self._operand(e, e.args[slot.index], slot)

    def _operand(self, parent: Expr, e: Expr, slot: Slot) -> str:
        if slot.coercion is Coercion.NONE:
            return self.at(e, slot.level)
        kind = _KINDS.get(slot.coercion, parent.kind)
        if slot.coercion in (Coercion.COMMON, Coercion.COUNT):
            kind = _common(parent)
            if kind is SymKind.BOOL and slot.coercion is Coercion.COUNT:
                kind = SymKind.INT
        return self.as_kind(kind, e, slot.level)

    def _pairs(self, e: Expr, spelling: Spelling) -> str:
        """Writes an operator of many operands two at a time, from the left."""
        (before, first), (between, second) = spelling.slots
        text = self._operand(e, e.args[0], first)
        for arg in e.args[1:]:
            text = f"{before}{text}{between}{self._operand(e, arg, second)}{spelling.tail}"
        return text

    # --- sums and products

    def _term(self, parent: Expr, e: Expr, level: Level) -> str:
        """Writes an operand of a sum or a product."""
        return self.at(e, level)

    def _sum(self, e: Expr) -> str:
        """Writes `a + b - c`."""
        rest = [self._next_term(e, arg) for arg in e.args[1:]]
        return "".join([self._term(e, e.args[0], Level.PRODUCT), *rest])

    def _next_term(self, parent: Expr, e: Expr) -> str:
        value = e.constant
        if value is not None and type(value) is not bool and self._is_negative(value):
            opposite = Float(-value) if type(value) is float else Int(int(-value))
            return f" - {self._term(parent, opposite, Level.ATOM)}"
        if e.op is MUL and e.kind is parent.kind:
            first, *rest = e.args
            scale = first.constant
            if type(scale) is int and self._is_negative(scale):
                return f" - {self._scaled(e, -scale, rest)}"
        return f" + {self._term(parent, e, Level.PRODUCT)}"

    def _is_negative(self, value: float) -> bool:
        return math.copysign(1, value) < 0 if type(value) is float else value < 0 and value != self.least_int

    def _scaled(self, product: Expr, scale: int, rest: list[Expr]) -> str:
        """Writes `scale*rest` after a minus sign, without a scale of 1 unless a number follows it."""
        if scale != 1 or _is_number(rest[0]):
            return self._factors(product, [Int(scale), *rest])
        if len(rest) == 1 and rest[0].op is MUL:
            return f"({self.text(rest[0])})"
        return self._factors(product, rest)

    def _product(self, e: Expr) -> str:
        """Writes `2*a*b`, or `-a*b` if the first factor is -1."""
        if e.args[0] is _MINUS_ONE and not _is_number(e.args[1]):
            times = self.spelling(MUL, e).between
            rest = "".join([f"{times}{self._term(e, arg, Level.SIGN)}" for arg in e.args[2:]])
            return f"-{self._term(e, e.args[1], Level.POWER)}{rest}"
        return self._factors(e, e.args)

    def _factors(self, parent: Expr, factors: tuple[Expr, ...] | list[Expr]) -> str:
        first = factors[0]
        # Without parentheses, the factors of a leading product would be parsed as those of the outer one.
        tight = Level.SIGN if first.op is MUL and len(factors) > 1 else Level.PRODUCT
        texts = [self._term(parent, first, tight)]
        texts += [self._term(parent, factor, Level.SIGN) for factor in factors[1:]]
        return self.spelling(MUL, parent).between.join(texts)


def _is_number(e: Expr) -> bool:
    """Returns whether `e` is an int or float constant, whose text may start with a sign."""
    return e.constant is not None and type(e) is not Bool


def _common(e: Expr) -> SymKind:
    kinds = {arg.kind for arg in e.args}
    return kinds.pop() if len(kinds) == 1 else SymKind.FLOAT if SymKind.FLOAT in kinds else SymKind.INT
