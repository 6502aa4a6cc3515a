"""Expressions as Python source.

The text needs the `math` module in scope where it calls functions, and `wrapper_ir.expr.arithmetic.power` where it raises
an int to a power that may be too long.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from wrapper_ir.errors import ExpressionError
from wrapper_ir.expr.base import Expr, SymKind
from wrapper_ir.expr.leaves import Int, Sym
from wrapper_ir.expr.operator_row import Level, Operator, Spelling
from wrapper_ir.expr.operators import POW
from wrapper_ir.expr.printer import Printer
from wrapper_ir.expr.width import is_wide_power
from wrapper_ir.quoting import is_python_name

__all__ = ["LeafName", "symbol_name", "to_python"]

LeafName = Callable[[Expr], str]
"""Writes a symbol or an atom in the target language, as a text that needs no parentheses."""


def symbol_name(e: Expr) -> str:
    """The symbol's own name, where Python reads it as that; raises ExpressionError WIR403 for other names (`class`) and for
    an atom, whose spelling only the caller knows."""
    if type(e) is Sym and is_python_name(e.name):
        return e.name
    raise ExpressionError(
        "WIR403", f"{e} has no spelling here", hint="pass name= to say how symbols and atoms are written"
    )


def to_python(e: Expr, name: LeafName = symbol_name, power: Callable[[], str] = lambda: "power") -> str:
    """Python source that computes `e`; `name` writes symbols and atoms, `power` the function `arithmetic.power`."""
    if type(e) is Int:
        return str(e.value)
    return _PythonPrinter(name, power).text(e)


class _PythonPrinter(Printer):
    def __init__(self, name: LeafName, power: Callable[[], str]) -> None:
        self._name = name
        self._power = power

    def spelling(self, op: Operator, e: Expr) -> Spelling:
        if op is POW and is_wide_power(e):
            return Spelling(f"{self._power()}({{*}})")
        return op.python

    def leaf(self, e: Expr) -> str:
        return self._name(e)

    def number(self, value: float) -> str:
        if type(value) is int or math.isfinite(value):
            return repr(value)
        return "math.nan" if math.isnan(value) else ("math.inf" if value > 0 else "-math.inf")

    def as_kind(self, kind: SymKind, e: Expr, level: Level) -> str:
        match kind:
            # `and` and `or` hand on an operand, so that operand has to be a bool for the result to be one.
            case SymKind.BOOL if e.kind is not kind:
                return f"bool({self.text(e)})"
            case SymKind.INT if e.kind is SymKind.FLOAT:
                return f"int({self.text(e)})"
            case _:
                return self.at(e, level)

    def _term(self, parent: Expr, e: Expr, level: Level) -> str:
        return self.at(e, level)  # Python converts by itself
