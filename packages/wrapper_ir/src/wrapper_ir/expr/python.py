"""Expressions as Python source.

Function calls require the `math` module in scope. Powers that may be too long or not real require
`wrapper_ir.expr.arithmetic.power`.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from wrapper_ir.expr.base import Expr, Operator, SymKind
from wrapper_ir.expr.leaves import Int
from wrapper_ir.expr.operators import POW
from wrapper_ir.expr.printer import LeafName, Printer, own_name
from wrapper_ir.expr.spelling import Level, Spelling
from wrapper_ir.expr.width import is_open_power
from wrapper_ir.support.quoting import is_python_name

_OWN_NAME = own_name(is_python_name)


def to_python(e: Expr, name: LeafName = _OWN_NAME, power: Callable[[], str] = lambda: "power") -> str:
    """Returns Python source that computes `e`; `name` writes leaves, `power` names `arithmetic.power`."""
    if type(e) is Int:
        return str(e.value)
    return _PythonPrinter(name, power).text(e)


class _PythonPrinter(Printer):
    def __init__(self, name: LeafName, power: Callable[[], str]) -> None:
        super().__init__(name)
        self._power = power

    def spelling(self, op: Operator, e: Expr) -> Spelling:
        if op is POW and is_open_power(e):
            return Spelling(f"{self._power()}({{*}})")
        return op.python

    def number(self, value: float) -> str:
        if type(value) is int or math.isfinite(value):
            return repr(value)
        return "math.nan" if math.isnan(value) else ("math.inf" if value > 0 else "-math.inf")

    def as_kind(self, kind: SymKind, e: Expr, level: Level) -> str:
        match kind:
            # `and` and `or` return an operand, which must therefore be a bool.
            case SymKind.BOOL if e.kind is not kind:
                return f"bool({self.text(e)})"
            case SymKind.INT if e.kind is not kind:
                return f"int({self.text(e)})"
            case SymKind.FLOAT if e.kind is not kind:
                return f"float({self.text(e)})"
            case _:
                return self.at(e, level)
