"""Expressions as C++17 source over `int64_t`, `double` and `bool`, with Python's rounding.

C++ rounds quotients towards zero, takes a remainder's sign from the dividend, and converts in ways of its
own; the text therefore calls the functions of `CPP_HELPERS` and converts every mixed operand explicitly.
Differences that remain: ints wrap at 64 bits; dividing an int by zero is undefined; functions outside their
domain give NaN where Python raises; `/` of two ints is exact to 1 ulp where one of them exceeds 2**53.
"""

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
from wrapper_ir.expr.python import LeafName, symbol_name

__all__ = ["CPP_HELPERS", "to_cpp"]

CPP_HELPERS = r"""
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

static inline int64_t wir_floordiv(int64_t a, int64_t b) {
  int64_t q = a / b;
  return (a % b != 0 && (a < 0) != (b < 0)) ? q - 1 : q;
}
static inline int64_t wir_ceildiv(int64_t a, int64_t b) {
  int64_t q = a / b;
  return (a % b != 0 && (a < 0) == (b < 0)) ? q + 1 : q;
}
static inline int64_t wir_mod(int64_t a, int64_t b) {
  int64_t r = a % b;
  return (r != 0 && (r < 0) != (b < 0)) ? r + b : r;
}
static inline double wir_mod(double a, double b) {
  double r = std::fmod(a, b);
  if (r == 0.0) return std::copysign(0.0, b);
  return (r < 0.0) != (b < 0.0) ? r + b : r;
}
static inline double wir_floordiv(double a, double b) {
  double r = std::fmod(a, b);
  double q = (a - r) / b;
  if (r != 0.0 && (r < 0.0) != (b < 0.0)) q -= 1.0;
  if (q == 0.0) return std::copysign(0.0, a / b);
  double f = std::floor(q);
  return q - f > 0.5 ? f + 1.0 : f;
}
static inline double wir_ceildiv(double a, double b) { return -wir_floordiv(a, -b); }
static inline int64_t wir_min(int64_t a, int64_t b) { return b < a ? b : a; }
static inline int64_t wir_max(int64_t a, int64_t b) { return b > a ? b : a; }
static inline double wir_min(double a, double b) { return b < a ? b : a; }
static inline double wir_max(double a, double b) { return b > a ? b : a; }
static inline bool wir_min(bool a, bool b) { return a && b; }
static inline bool wir_max(bool a, bool b) { return a || b; }
static inline int64_t wir_pow(int64_t base, int64_t exp) {
  int64_t result = 1;
  for (; exp > 0; exp >>= 1, base *= base) {
    if (exp & 1) result *= base;
    if (exp == 1) break;
  }
  return result;
}
static inline double wir_pow(double base, double exp) { return std::pow(base, exp); }
static inline int64_t wir_abs(int64_t a) { return a < 0 ? -a : a; }
static inline double wir_abs(double a) { return std::fabs(a); }
static inline double wir_round_to(double x, int64_t digits) {
  if (!std::isfinite(x) || digits > 340) return x;
  if (digits < 0) {
    double scale = std::pow(10.0, static_cast<double>(-digits));
    return std::nearbyint(x / scale) * scale;
  }
  char text[700];
  std::snprintf(text, sizeof text, "%.*f", static_cast<int>(digits), x);
  return std::strtod(text, nullptr);
}
"""
"""Definitions that the printed expressions need, once a translation unit."""

_INT64_MIN, _INT64_MAX = -(2**63), 2**63 - 1
_CPP_TYPE = {SymKind.INT: "int64_t", SymKind.FLOAT: "double", SymKind.BOOL: "bool"}
_CALLS: Mapping[type[FloorDiv] | type[CeilDiv] | type[Mod], str] = {
    FloorDiv: "wir_floordiv",
    CeilDiv: "wir_ceildiv",
    Mod: "wir_mod",
}
_ROUNDING = {
    ConvertOp.TO_INT: "std::trunc",
    ConvertOp.FLOOR: "std::floor",
    ConvertOp.CEIL: "std::ceil",
    ConvertOp.ROUND: "std::nearbyint",
}
_BITWISE = {MathOp.BIT_AND: "&", MathOp.BIT_OR: "|", MathOp.BIT_XOR: "^"}


def to_cpp(e: Expr, name: LeafName = symbol_name) -> str:
    """C++ source that computes `e`; `name` writes symbols and atoms, typed int64_t, double or bool by kind.

    Raises ExpressionError WIR404 for a constant that int64_t cannot hold, WIR403 for an atom without name.
    """
    if type(e) is Sym:
        return name(e)
    return _CppPrinter(name).text(e)


class _CppPrinter(InfixPrinter):
    times = " * "
    logic_words: Mapping[type[Expr], str] = {And: " && ", Or: " || "}  # never written
    not_word = "!"
    not_level = Level.ATOM
    or_operand = Level.NOT  # compilers warn about `a && b || c`
    least_int = _INT64_MIN

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
            FloorDiv: self._division,
            CeilDiv: self._division,
            Mod: self._division,
            TrueDiv: self._true_division,
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
        if isinstance(e, Int):
            return _int_literal(e.value)
        if math.isfinite(e.value):
            return repr(e.value)
        # The macros are floats, and these two values survive the conversion.
        return (
            "double(NAN)"
            if math.isnan(e.value)
            else ("double(INFINITY)" if e.value > 0 else "-double(INFINITY)")
        )

    def as_kind(self, kind: SymKind, e: Expr, level: Level) -> str:
        """Text of `e` converted to `kind`, holding together at least as tightly as `level`."""
        if e.kind is kind:
            return self.at(e, level)
        if isinstance(e, Int) and kind is SymKind.FLOAT and abs(e.value) <= 2**53:
            return self.at(Float(float(e.value)), level)
        return f"static_cast<{_CPP_TYPE[kind]}>({self.text(e)})"

    def arithmetic(self, parent: Expr, e: Expr, level: Level) -> str:
        return self.as_kind(parent.kind, e, level)

    def truth(self, e: Expr, level: Level) -> str:
        return self.as_kind(SymKind.BOOL, e, level)

    def compare(self, e: Expr) -> tuple[str, Level]:
        assert isinstance(e, Cmp)
        kinds = {e.lhs.kind, e.rhs.kind}
        kind = kinds.pop() if len(kinds) == 1 else SymKind.FLOAT if SymKind.FLOAT in kinds else SymKind.INT
        lhs, rhs = (self.as_kind(kind, side, Level.SUM) for side in (e.lhs, e.rhs))
        return f"{lhs} {e.op.value} {rhs}", Level.COMPARE

    def _bool(self, e: Expr) -> tuple[str, Level]:
        assert isinstance(e, Bool)
        return ("true" if e.value else "false"), Level.ATOM

    def _leaf(self, e: Expr) -> tuple[str, Level]:
        return self._name(e), Level.ATOM

    def _call(self, function: str, kind: SymKind, *args: Expr) -> tuple[str, Level]:
        return f"{function}({', '.join(self.as_kind(kind, arg, Level.TERNARY) for arg in args)})", Level.ATOM

    def _division(self, e: Expr) -> tuple[str, Level]:
        assert isinstance(e, FloorDiv | CeilDiv | Mod)
        return self._call(_CALLS[type(e)], e.kind, e.lhs, e.rhs)

    def _true_division(self, e: Expr) -> tuple[str, Level]:
        assert isinstance(e, TrueDiv)
        lhs = self.as_kind(SymKind.FLOAT, e.lhs, Level.PRODUCT)
        return f"{lhs} / {self.as_kind(SymKind.FLOAT, e.rhs, Level.SIGN)}", Level.PRODUCT

    def _extremum(self, e: Expr) -> tuple[str, Level]:
        assert isinstance(e, Min | Max)
        function = f"wir_{type(e).__name__.lower()}"
        text = self.as_kind(e.kind, e.args[0], Level.TERNARY)
        for arg in e.args[1:]:
            text = f"{function}({text}, {self.as_kind(e.kind, arg, Level.TERNARY)})"
        return text, Level.ATOM

    def _where(self, e: Expr) -> tuple[str, Level]:
        assert isinstance(e, Where)
        cond = self.truth(e.cond, Level.OR)
        lhs, rhs = (self.as_kind(e.kind, side, Level.OR) for side in (e.lhs, e.rhs))
        return f"{cond} ? {lhs} : {rhs}", Level.TERNARY

    def _power(self, e: Expr) -> tuple[str, Level]:
        assert isinstance(e, Pow)
        return self._call("wir_pow", e.kind, e.base, e.exp)

    def _convert(self, e: Expr) -> tuple[str, Level]:
        assert isinstance(e, Convert)
        match e.op:
            case ConvertOp.TO_FLOAT | ConvertOp.TO_BOOL:
                return f"static_cast<{_CPP_TYPE[e.kind]}>({self.text(e.arg)})", Level.ATOM
            case ConvertOp.TO_INT | ConvertOp.FLOOR | ConvertOp.CEIL | ConvertOp.ROUND:
                inner = self.text(e.arg)
                if e.arg.kind is SymKind.FLOAT:
                    inner = f"{_ROUNDING[e.op]}({inner})"
                return f"static_cast<int64_t>({inner})", Level.ATOM

    def _math(self, e: Expr) -> tuple[str, Level]:
        assert isinstance(e, MathFn)
        if e.fn in _BITWISE:
            lhs, rhs = (self.as_kind(SymKind.INT, arg, Level.SIGN) for arg in e.args)
            return f"({lhs} {_BITWISE[e.fn]} {rhs})", Level.ATOM
        if e.fn is MathOp.ABS:
            return self._call("wir_abs", e.kind, *e.args)
        if e.fn is MathOp.ROUND_TO:
            number = self.as_kind(SymKind.FLOAT, e.args[0], Level.TERNARY)
            return (
                f"wir_round_to({number}, {self.as_kind(SymKind.INT, e.args[1], Level.TERNARY)})",
                Level.ATOM,
            )
        return self._call(f"std::{e.fn.value}", SymKind.FLOAT, *e.args)


def _int_literal(value: int) -> str:
    if value == _INT64_MIN:
        return "(-9223372036854775807L - 1L)"
    if not _INT64_MIN < value <= _INT64_MAX:
        raise ExpressionError("WIR404", f"{value} does not fit in int64_t")
    return f"{value}L"
