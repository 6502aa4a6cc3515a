"""The value of an expression, with Python's numbers: the meaning that every printer has to agree with."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from wrapper_ir.errors import ExpressionError
from wrapper_ir.expr.base import Expr, SymKind
from wrapper_ir.expr.logic import COMPARE
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
from wrapper_ir.expr.python import to_python

__all__ = ["Number", "compile_python", "evaluate"]

Number = int | float | bool

_MAX_POWER_BITS = 1 << 16


def evaluate(e: Expr, env: Mapping[str, Number], atom: Callable[[Expr], Number] | None = None) -> Number:
    """The value of `e` where `env` gives the symbols by name and `atom` the atoms (sizes, items ...).

    Raises ExpressionError WIR402 for an unknown symbol or atom, a division by zero, an argument outside a
    function's domain, an overflow, and an int power with a negative exponent.
    """
    if type(e) is Int:
        return e.value
    try:
        return _Evaluator(env, atom).value(e)
    except (ArithmeticError, ValueError) as error:
        if isinstance(error, ExpressionError):
            raise
        raise ExpressionError("WIR402", f"cannot evaluate {e}: {error}") from error


def compile_python(e: Expr, params: Sequence[str]) -> Callable[..., Number]:
    """A Python function of the symbols `params`, in that order, that computes `e`.

    Raises ExpressionError WIR402 for a symbol outside `params`, WIR403 for an atom.
    """
    if not e.free_symbols <= set(params):
        missing = ", ".join(sorted(e.free_symbols - set(params)))
        raise ExpressionError("WIR402", f"{e} also needs {missing}")
    source = f"lambda {', '.join(params)}: {to_python(e)}"
    function: Callable[..., Number] = eval(source, {"math": math})  # noqa: S307  # our own printer's text
    return function


class _Evaluator:
    def __init__(self, env: Mapping[str, Number], atom: Callable[[Expr], Number] | None) -> None:
        self._env = env
        self._atom = atom

    def value(self, e: Expr) -> Number:
        match e:
            case Int() | Float() | Bool():
                return e.value
            case Sym():
                return self._symbol(e)
            case SizeOf() | StrideOf() | OffsetOf() | Item():
                if self._atom is None:
                    raise ExpressionError("WIR402", f"{e} has no value here", hint="pass atom=")
                return self._atom(e)
            case And():
                return all(self.value(arg) for arg in e.args)
            case Or():
                return any(self.value(arg) for arg in e.args)
            case Where():
                return self.value(e.lhs if self.value(e.cond) else e.rhs)
            case _:
                return _STRICT[type(e)](e, [self.value(child) for child in e.children])

    def _symbol(self, e: Sym) -> Number:
        try:
            return self._env[e.name]
        except KeyError:
            raise ExpressionError("WIR402", f"symbol {e.name} has no value here") from None


def _add(e: Expr, values: list[Number]) -> Number:
    total = values[0]
    for value in values[1:]:
        total = total + value
    return total


def _mul(e: Expr, values: list[Number]) -> Number:
    total = values[0]
    for value in values[1:]:
        total = total * value
    return total


def _pow(e: Expr, values: list[Number]) -> Number:
    base, exp = values
    if e.kind is not SymKind.INT:
        result: float | complex = float(base) ** float(exp)
        if isinstance(result, complex):
            raise ExpressionError("WIR402", f"{base}**{exp} in {e} is not real")
        return result
    if exp < 0:
        raise ExpressionError("WIR402", f"negative exponent {exp} of an int in {e}")
    if int(base).bit_length() * exp > _MAX_POWER_BITS:
        raise ExpressionError("WIR402", f"{base}**{exp} in {e} is too large")
    power: int = int(base) ** int(exp)
    return power


def _compare(e: Expr, values: list[Number]) -> Number:
    assert isinstance(e, Cmp)
    return COMPARE[e.op](values[0], values[1])


def _convert(e: Expr, values: list[Number]) -> Number:
    assert isinstance(e, Convert)
    return _CONVERT[e.op](values[0])


def _math(e: Expr, values: list[Number]) -> Number:
    assert isinstance(e, MathFn)
    return _MATH[e.fn](*values)


_STRICT: Mapping[type[Expr], Callable[[Expr, list[Number]], Number]] = {
    Add: _add,
    Mul: _mul,
    Pow: _pow,
    FloorDiv: lambda e, v: v[0] // v[1],
    CeilDiv: lambda e, v: -(v[0] // -v[1]),
    Mod: lambda e, v: v[0] % v[1],
    TrueDiv: lambda e, v: v[0] / v[1],
    Min: lambda e, v: min(v),
    Max: lambda e, v: max(v),
    Not: lambda e, v: not v[0],
    Cmp: _compare,
    Convert: _convert,
    MathFn: _math,
}

_CONVERT: Mapping[ConvertOp, Callable[[Number], Number]] = {
    ConvertOp.TO_INT: int,
    ConvertOp.TO_FLOAT: float,
    ConvertOp.TO_BOOL: bool,
    ConvertOp.FLOOR: math.floor,
    ConvertOp.CEIL: math.ceil,
    ConvertOp.ROUND: round,
}

_MATH: Mapping[MathOp, Callable[..., Number]] = {
    MathOp.ABS: abs,
    MathOp.SQRT: math.sqrt,
    MathOp.EXP: math.exp,
    MathOp.LOG: math.log,
    MathOp.LOG2: math.log2,
    MathOp.SIN: math.sin,
    MathOp.COS: math.cos,
    MathOp.TAN: math.tan,
    MathOp.SINH: math.sinh,
    MathOp.COSH: math.cosh,
    MathOp.TANH: math.tanh,
    MathOp.ASIN: math.asin,
    MathOp.ACOS: math.acos,
    MathOp.ATAN: math.atan,
    MathOp.ASINH: math.asinh,
    MathOp.ROUND_TO: lambda x, digits: round(float(x), int(digits)),
    MathOp.BIT_AND: lambda a, b: int(a) & int(b),
    MathOp.BIT_OR: lambda a, b: int(a) | int(b),
    MathOp.BIT_XOR: lambda a, b: int(a) ^ int(b),
}
