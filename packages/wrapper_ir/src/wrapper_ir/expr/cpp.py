"""Expressions as C++17 source over `wir_int`, `double` and `bool`, with Python's rounding and refusals.

C++ rounds quotients toward zero, gives a remainder the dividend's sign, and converts operands implicitly. The
text therefore calls the functions of `CPP_HELPERS` and converts every mixed operand explicitly. `wir_int` is
int64_t unless WIR_INT is defined as a class with checked arithmetic, so no operation has two plain C++ ints
as operands.

Two differences remain. Intermediate ints wrap at 64 bits, or are refused (WIR408) beyond the bits of the
checked class, while Python's are longer. Functions may differ in the last bit.
"""

from __future__ import annotations

import math
from itertools import takewhile
from pathlib import Path

from wrapper_ir.errors import ExpressionError
from wrapper_ir.expr.arithmetic import fits_int64
from wrapper_ir.expr.base import Expr, Operator, SymKind
from wrapper_ir.expr.leaves import Float, Int
from wrapper_ir.expr.operators import ADD, COMPARISONS, MUL, TRUEDIV, WHERE
from wrapper_ir.expr.printer import LeafName, Printer, own_name
from wrapper_ir.expr.spelling import Coercion, Level, Slot, Spelling
from wrapper_ir.support.quoting import is_cpp_name

CPP_HELPERS = Path(__file__).with_name("helpers.h").read_text(encoding="utf-8")
"""Definitions for printed expressions, once per translation unit."""

_INT64_MIN = -(2**63)
_CPP_TYPE = {SymKind.FLOAT: "double", SymKind.BOOL: "bool"}
_QUOTIENT = Spelling("{0:float product} / {1:float sign}", Level.PRODUCT)
"""A quotient by a nonzero constant, which needs no check."""
_COUNTS = (Coercion.OWN, Coercion.COUNT, Coercion.INT)


_OWN_NAME = own_name(is_cpp_name)


def to_cpp(e: Expr, name: LeafName = _OWN_NAME) -> str:
    """Returns C++ source that computes `e`; `name` writes symbols and atoms, typed by their kind.

    Raises ExpressionError WIR404 for a constant out of the range of int64_t, and WIR403 for an atom, or a
    symbol whose name is not valid in C++, if `name` is not given.
    """
    return _CppPrinter(name).text(e)


class _CppPrinter(Printer):
    truth_words = ("false", "true")
    least_int = _INT64_MIN

    def spelling(self, op: Operator, e: Expr) -> Spelling:
        kinds = {arg.kind for arg in e.args}
        if SymKind.FLOAT not in kinds:
            return op.cpp_of_ints
        if op in COMPARISONS and SymKind.INT in kinds and not all(map(_is_exact, e.args)):
            return Spelling(f"wir_order({{*}}) {op.name} 0.0", Level.COMPARE)
        if op is TRUEDIV and e.args[1].constant:
            return _QUOTIENT
        return op.cpp

    def render(self, e: Expr) -> tuple[str, Level]:
        if (e.op is ADD or e.op is MUL) and e.kind is SymKind.FLOAT:
            whole = tuple(takewhile(lambda arg: arg.kind is not SymKind.FLOAT, e.args))
            if len(whole) > 1:  # Python adds or multiplies leading ints exactly, before converting to float
                e = e.op(e.op(*whole), *e.args[len(whole) :])
        return super().render(e)

    def number(self, value: float) -> str:
        if type(value) is int:
            if not fits_int64(value):
                raise ExpressionError("WIR404", f"{value} does not fit in int64_t")
            return "(-9223372036854775807L - 1L)" if value == _INT64_MIN else f"{value}L"
        if math.isfinite(value):
            return repr(value)
        # The macros have type float; both values survive the conversion.
        number = "double(NAN)" if math.isnan(value) else "double(INFINITY)"
        return f"-{number}" if value < 0 else number

    def _term(self, parent: Expr, e: Expr, level: Level) -> str:
        return self._typed(parent, e) or self.as_kind(parent.kind, e, level)

    def _operand(self, parent: Expr, e: Expr, slot: Slot) -> str:
        typed = self._typed(parent, e) if slot.coercion in _COUNTS else ""
        return typed or super()._operand(parent, e, slot)

    def _typed(self, parent: Expr, e: Expr) -> str:
        """Returns a conversion to `wir_int` if all operands are C++ constants, "" otherwise."""
        first = parent.args[:2]
        return f"wir_whole({self.text(e)})" if e in first and all(map(_is_plain, first)) else ""

    def as_kind(self, kind: SymKind, e: Expr, level: Level) -> str:
        if e.kind is kind:
            return self.at(e, level)
        if type(e) is Int and kind is SymKind.FLOAT and _is_exact(e):
            return self.at(Float(float(e.value)), level)
        if kind is SymKind.INT:
            return f"{'wir_to_int' if e.kind is SymKind.FLOAT else 'wir_whole'}({self.text(e)})"
        return f"static_cast<{_CPP_TYPE[kind]}>({self.text(e)})"


def _is_exact(e: Expr) -> bool:
    """Returns whether an operand of a comparison converts to a float exactly."""
    return e.kind is not SymKind.INT or (type(e) is Int and abs(e.value) <= 2**53)


def _is_plain(e: Expr) -> bool:
    """Returns whether the text of an int has a builtin C++ type."""
    if e.op is WHERE:
        return all(map(_is_plain, e.args[1:]))
    return type(e) is Int
