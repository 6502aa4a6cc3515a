"""Expressions as Python source. The text needs the `math` module in scope where it calls functions."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from wrapper_ir.errors import ExpressionError
from wrapper_ir.expr.base import Expr, SymKind
from wrapper_ir.expr.infix import InfixPrinter, Level
from wrapper_ir.expr.nodes import (
    Add,
    And,
    Bool,
    CeilDiv,
    Cmp,
    Convert,
    ConvertOp,
    Float,
    FloorDiv,
    Int,
    Item,
    MathFn,
    MathOp,
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

__all__ = ["LeafName", "symbol_name", "to_python"]

LeafName = Callable[[Expr], str]
"""Writes a symbol or an atom in the target language, as a text that needs no parentheses."""

_CONVERSIONS = {
    ConvertOp.TO_INT: "int",
    ConvertOp.TO_FLOAT: "float",
    ConvertOp.TO_BOOL: "bool",
    ConvertOp.FLOOR: "math.floor",
    ConvertOp.CEIL: "math.ceil",
    ConvertOp.ROUND: "round",
}
_OPERATORS: Mapping[type[FloorDiv] | type[Mod] | type[TrueDiv], str] = {
    FloorDiv: "//",
    Mod: "%",
    TrueDiv: "/",
}
_BITWISE = {MathOp.BIT_AND: "&", MathOp.BIT_OR: "|", MathOp.BIT_XOR: "^"}


def symbol_name(e: Expr) -> str:
    """The symbol's own name; raises ExpressionError WIR403 for an atom, whose spelling only the caller knows."""
    if isinstance(e, Sym):
        return e.name
    raise ExpressionError(
        "WIR403", f"{e} has no spelling here", hint="pass name= to say how atoms are written"
    )


def to_python(e: Expr, name: LeafName = symbol_name) -> str:
    """Python source that computes `e`; `name` writes symbols and atoms."""
    if type(e) is Int:
        return str(e.value)
    return _PythonPrinter(name).text(e)


class _PythonPrinter(InfixPrinter):
    times = " * "

    def __init__(self, name: LeafName) -> None:
        super().__init__()
        self._name = name

    def table(self) -> Mapping[type[Expr], Callable[[Expr], tuple[str, Level]]]:
        return {
            Int: self.literal,
            Float: self.literal,
            Bool: self._bool,
            **dict.fromkeys((Sym, SizeOf, StrideOf, OffsetOf, Item), self._leaf),
            Add: self.sum,
            Mul: self.product,
            FloorDiv: self._infix,
            Mod: self._infix,
            TrueDiv: self._infix,
            CeilDiv: self._ceildiv,
            Min: self._extremum,
            Max: self._extremum,
            Where: self._where,
            Pow: self._power,
            Cmp: self.compare,
            And: self.logic,
            Or: self.logic,
            Not: self.negation,
            Convert: self._convert,
            MathFn: self._math,
        }

    def number(self, e: Int | Float) -> str:
        if isinstance(e, Int) or math.isfinite(e.value):
            return repr(e.value)
        return "math.nan" if math.isnan(e.value) else ("math.inf" if e.value > 0 else "-math.inf")

    def truth(self, e: Expr, level: Level) -> str:
        # `and` and `or` hand on an operand, so that operand has to be a bool for the result to be one.
        return self.at(e, level) if e.kind is SymKind.BOOL else f"bool({self.text(e)})"

    def _bool(self, e: Expr) -> tuple[str, Level]:
        assert isinstance(e, Bool)
        return str(e.value), Level.ATOM

    def _leaf(self, e: Expr) -> tuple[str, Level]:
        return self._name(e), Level.ATOM

    def _infix(self, e: Expr) -> tuple[str, Level]:
        assert isinstance(e, FloorDiv | Mod | TrueDiv)
        text = f"{self.at(e.lhs, Level.PRODUCT)} {_OPERATORS[type(e)]} {self.at(e.rhs, Level.SIGN)}"
        return text, Level.PRODUCT

    def _ceildiv(self, e: Expr) -> tuple[str, Level]:
        assert isinstance(e, CeilDiv)
        divisor = f"-{self.at(e.rhs, Level.POWER)}"
        return f"-({self.at(e.lhs, Level.PRODUCT)} // {divisor})", Level.SIGN

    def _extremum(self, e: Expr) -> tuple[str, Level]:
        assert isinstance(e, Min | Max)
        return f"{type(e).__name__.lower()}({', '.join(map(self.text, e.args))})", Level.ATOM

    def _where(self, e: Expr) -> tuple[str, Level]:
        assert isinstance(e, Where)
        lhs, cond, rhs = (self.at(part, Level.OR) for part in (e.lhs, e.cond, e.rhs))
        return f"{lhs} if {cond} else {rhs}", Level.TERNARY

    def _power(self, e: Expr) -> tuple[str, Level]:
        assert isinstance(e, Pow)
        return f"{self.at(e.base, Level.ATOM)} ** {self.at(e.exp, Level.SIGN)}", Level.POWER

    def _convert(self, e: Expr) -> tuple[str, Level]:
        assert isinstance(e, Convert)
        return f"{_CONVERSIONS[e.op]}({self.text(e.arg)})", Level.ATOM

    def _math(self, e: Expr) -> tuple[str, Level]:
        assert isinstance(e, MathFn)
        if e.fn in _BITWISE:
            lhs, rhs = (self._int(arg, Level.SUM) for arg in e.args)
            return f"({lhs} {_BITWISE[e.fn]} {rhs})", Level.ATOM
        if e.fn is MathOp.ROUND_TO:
            # `round` of an int to a negative number of digits would compute a power of ten.
            return f"round(float({self.text(e.args[0])}), {self._int(e.args[1], Level.TERNARY)})", Level.ATOM
        function = "abs" if e.fn is MathOp.ABS else f"math.{e.fn.value}"
        return f"{function}({', '.join(map(self.text, e.args))})", Level.ATOM

    def _int(self, e: Expr, level: Level) -> str:
        return f"int({self.text(e)})" if e.kind is SymKind.FLOAT else self.at(e, level)
