"""Expressions as C++17 source over `int64_t`, `double` and `bool`, with Python's rounding.

C++ rounds quotients towards zero, takes a remainder's sign from the dividend, and converts in ways of its
own; the text therefore calls the functions of `CPP_HELPERS` and converts every mixed operand explicitly.
Differences that remain: ints wrap at 64 bits; dividing an int by zero is undefined; functions outside their
domain give NaN where Python raises; `/` of two ints is exact to 1 ulp where one of them exceeds 2**53.
"""

from __future__ import annotations

import math
from pathlib import Path

from wrapper_ir.errors import ExpressionError
from wrapper_ir.expr.arithmetic import fits_int64
from wrapper_ir.expr.base import Expr, Operator, SymKind
from wrapper_ir.expr.leaves import Float, Int
from wrapper_ir.expr.printer import LeafName, Printer, own_name
from wrapper_ir.expr.spelling import Level, Spelling
from wrapper_ir.quoting import is_cpp_name

__all__ = ["CPP_HELPERS", "to_cpp"]

CPP_HELPERS = Path(__file__).with_name("helpers.h").read_text(encoding="utf-8")
"""Definitions that the printed expressions need, once a translation unit."""

_INT64_MIN = -(2**63)
_CPP_TYPE = {SymKind.INT: "int64_t", SymKind.FLOAT: "double", SymKind.BOOL: "bool"}


_OWN_NAME = own_name(is_cpp_name)


def to_cpp(e: Expr, name: LeafName = _OWN_NAME) -> str:
    """C++ source that computes `e`; `name` writes symbols and atoms, typed int64_t, double or bool by kind.

    Raises ExpressionError WIR404 for a constant that int64_t cannot hold, WIR403 for an atom without name, and for a symbol
    whose own name C++ does not allow.
    """
    return _CppPrinter(name).text(e)


class _CppPrinter(Printer):
    truth_words = ("false", "true")
    least_int = _INT64_MIN

    def spelling(self, op: Operator, e: Expr) -> Spelling:
        if op.cpp_of_ints is not op.cpp and all(arg.kind is not SymKind.FLOAT for arg in e.args):
            return op.cpp_of_ints
        return op.cpp

    def number(self, value: float) -> str:
        if type(value) is int:
            if not fits_int64(value):
                raise ExpressionError("WIR404", f"{value} does not fit in int64_t")
            return "(-9223372036854775807L - 1L)" if value == _INT64_MIN else f"{value}L"
        if math.isfinite(value):
            return repr(value)
        # The macros are floats, and these two values survive the conversion.
        number = "double(NAN)" if math.isnan(value) else "double(INFINITY)"
        return f"-{number}" if value < 0 else number

    def _term(self, parent: Expr, e: Expr, level: Level) -> str:
        return self.as_kind(parent.kind, e, level)

    def as_kind(self, kind: SymKind, e: Expr, level: Level) -> str:
        if e.kind is kind:
            return self.at(e, level)
        if type(e) is Int and kind is SymKind.FLOAT and abs(e.value) <= 2**53:
            return self.at(Float(float(e.value)), level)
        return f"static_cast<{_CPP_TYPE[kind]}>({self.text(e)})"
