"""Expressions as IR text. `parse_expr(print_expr(e)) is e` for every expression."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from wrapper_ir.expr.base import Expr
from wrapper_ir.expr.infix import InfixPrinter, Level
from wrapper_ir.expr.nodes import (
    Add,
    And,
    Bool,
    CeilDiv,
    Cmp,
    Convert,
    Float,
    FloorDiv,
    Int,
    Item,
    MathFn,
    Max,
    Min,
    Mod,
    Mul,
    Not,
    OffsetOf,
    Or,
    Pow,
    SizeOf,
    StrideOf,
    Sym,
    TrueDiv,
    Where,
)
from wrapper_ir.quoting import value_name

__all__ = ["INFIX_OPERATORS", "NAMED_FUNCTIONS", "print_expr"]

NAMED_FUNCTIONS: Mapping[type[Expr], str] = {Min: "min", Max: "max", Where: "where", CeilDiv: "ceildiv"}
"""Nodes that print as a call of this name with their operands."""

NAMED_ATOMS: Mapping[type[Expr], str] = {SizeOf: "size", StrideOf: "stride", OffsetOf: "offset", Item: "item"}
"""Atoms that print as a call of this name with a value and perhaps a dimension."""

INFIX_OPERATORS: Mapping[type[FloorDiv] | type[Mod] | type[TrueDiv], str] = {
    FloorDiv: "//",
    Mod: " % ",
    TrueDiv: " / ",
}
"""Operators of two operands at the level of a product, as printed."""


def print_expr(e: Expr) -> str:
    """The IR text of `e`, with as few parentheses as keep its structure."""
    if type(e) is Int:
        return str(e.value)
    if type(e) is Sym:
        return e.name
    return _PRINTER.text(e)


class _TextPrinter(InfixPrinter):
    def table(self) -> Mapping[type[Expr], Callable[[Expr], tuple[str, Level]]]:
        return {
            Int: self.literal,
            Float: self.literal,
            Bool: self._bool,
            Sym: self._symbol,
            Add: self.sum,
            Mul: self.product,
            Pow: self._power,
            Cmp: self.compare,
            And: self.logic,
            Or: self.logic,
            Not: self.negation,
            Convert: self._convert,
            MathFn: self._math,
            **dict.fromkeys(INFIX_OPERATORS, self._infix),
            **dict.fromkeys(NAMED_FUNCTIONS, self._function),
            **dict.fromkeys(NAMED_ATOMS, self._atom),
        }

    def number(self, e: Int | Float) -> str:
        return repr(e.value)

    def _bool(self, e: Expr) -> tuple[str, Level]:
        assert isinstance(e, Bool)
        return ("true" if e.value else "false"), Level.ATOM

    def _symbol(self, e: Expr) -> tuple[str, Level]:
        assert isinstance(e, Sym)
        return e.name, Level.ATOM

    def _infix(self, e: Expr) -> tuple[str, Level]:
        assert isinstance(e, FloorDiv | Mod | TrueDiv)
        operator = INFIX_OPERATORS[type(e)]
        return f"{self.at(e.lhs, Level.PRODUCT)}{operator}{self.at(e.rhs, Level.SIGN)}", Level.PRODUCT

    def _power(self, e: Expr) -> tuple[str, Level]:
        assert isinstance(e, Pow)
        return f"{self.at(e.base, Level.ATOM)}**{self.at(e.exp, Level.SIGN)}", Level.POWER

    def _function(self, e: Expr) -> tuple[str, Level]:
        return f"{NAMED_FUNCTIONS[type(e)]}({', '.join(map(self.text, e.children))})", Level.ATOM

    def _convert(self, e: Expr) -> tuple[str, Level]:
        assert isinstance(e, Convert)
        return f"{e.op.value}({self.text(e.arg)})", Level.ATOM

    def _math(self, e: Expr) -> tuple[str, Level]:
        assert isinstance(e, MathFn)
        return f"{e.fn.value}({', '.join(map(self.text, e.args))})", Level.ATOM

    def _atom(self, e: Expr) -> tuple[str, Level]:
        assert isinstance(e, SizeOf | StrideOf | OffsetOf | Item)
        dim = f", {e.dim}" if isinstance(e, SizeOf | StrideOf) else ""
        return f"{NAMED_ATOMS[type(e)]}(%{value_name(e.value.name)}{dim})", Level.ATOM


_PRINTER = _TextPrinter()  # immutable after construction
