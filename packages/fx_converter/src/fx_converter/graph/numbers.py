"""Expressions as calls of Python's and torch's own functions of numbers, one call a node.

The same walk makes graph nodes, and symbolic numbers for fake values.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from typing import Any

import torch

from fx_converter import targets
from fx_converter.targets.numbers import PARTIAL
from wrapper_ir.expr import (
    Add,
    And,
    Bool,
    CeilDiv,
    Cmp,
    CmpOp,
    Convert,
    ConvertOp,
    Expr,
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
    SymKind,
    TrueDiv,
    Where,
)

__all__ = ["CALLS", "Calculator"]

# Any in this file: nodes, numbers, symbolic numbers, and the functions over them.
_MAX_FACTORS = 8  # powers up to here are products

COMPARISONS: Mapping[CmpOp, Callable[..., Any]] = {
    CmpOp.EQ: operator.eq,
    CmpOp.NE: operator.ne,
    CmpOp.LT: operator.lt,
    CmpOp.LE: operator.le,
    CmpOp.GT: operator.gt,
    CmpOp.GE: operator.ge,
}
CONVERSIONS: Mapping[ConvertOp, Callable[..., Any]] = {
    ConvertOp.TO_INT: torch.sym_int,
    ConvertOp.TO_FLOAT: torch.sym_float,
    ConvertOp.TO_BOOL: targets.truth,
    ConvertOp.FLOOR: math.floor,
    ConvertOp.CEIL: math.ceil,
    ConvertOp.ROUND: round,
}
_SYMBOLIC = ("sqrt", "cos", "cosh", "sin", "sinh", "tan", "tanh", "asin", "acos", "atan", "log2")
FUNCTIONS: Mapping[MathOp, Callable[..., Any]] = {
    MathOp.ABS: operator.abs,
    MathOp.BIT_AND: operator.and_,
    MathOp.BIT_OR: operator.or_,
    MathOp.BIT_XOR: operator.xor,
    MathOp.ROUND_TO: round,
    # of these torch has variants over symbolic numbers, under private names
    **{MathOp(n): getattr(torch, f"_sym_{n}") for n in _SYMBOLIC},
    **{MathOp(n): getattr(math, n) for n in ("exp", "log", "asinh")},
}
CALLS: Mapping[type[Expr], Callable[..., Any]] = {
    Add: operator.add,
    Mul: operator.mul,
    FloorDiv: operator.floordiv,
    Mod: operator.mod,
    TrueDiv: operator.truediv,
    Pow: operator.pow,
    Min: torch.sym_min,
    Max: torch.sym_max,
    And: operator.and_,
    Or: operator.or_,
    Not: torch.sym_not,
    Where: targets.choose,
}
_PARTIAL_NAMES: Mapping[type[Expr], str] = {FloorDiv: "floordiv", Mod: "mod", TrueDiv: "truediv", Pow: "pow"}


class Calculator:
    """Walks expressions; `leaf` gives symbols and atoms, `call` applies a function. Each expression is computed once.

    A graph computes all operands of conditions. Where Python would leave one out, it is computed with functions that have
    a value everywhere.
    """

    def __init__(self, leaf: Callable[[Expr], Any], call: Callable[..., Any]) -> None:
        self._leaf = leaf
        self._call = call
        self._known: dict[tuple[Expr, bool], Any] = {}

    def __call__(self, e: Expr, optional: bool = False) -> Any:
        """The value of `e`; `optional` where it may turn out not to matter."""
        if isinstance(e, Int | Float | Bool):
            return e.value
        found = self._known.get((e, optional))
        if found is None:
            found = self._compute(e, optional)
            if not e.free_values:
                self._known[e, optional] = found
        return found

    def _compute(self, e: Expr, optional: bool) -> Any:
        match e:
            case Sym() | SizeOf() | StrideOf() | OffsetOf() | Item():
                return self._leaf(e)
            case CeilDiv(lhs, Int(divisor) as rhs) if divisor > 0:
                rounded = self._call(operator.add, self(lhs, optional), divisor - 1)
                return self._divided(FloorDiv, rounded, divisor, optional, rhs)
            case CeilDiv(lhs, rhs):
                negative = self._call(operator.neg, self(rhs, optional))
                quotient = self._divided(FloorDiv, self(lhs, optional), negative, optional, rhs)
                return self._call(operator.neg, quotient)
            case FloorDiv(lhs, rhs) | Mod(lhs, rhs) | TrueDiv(lhs, rhs):
                return self._divided(type(e), self(lhs, optional), self(rhs, optional), optional, rhs)
            case Pow(base, exp):
                return self._power(e, base, exp, optional)
            case Where(cond, lhs, rhs):
                sides = [self._as(e.kind, side) for side in (lhs, rhs)]
                return self._call(CALLS[Where], self._truth(cond, optional), *sides)
            case And(args) | Or(args):
                return self._logic(CALLS[type(e)], args, optional)
            case Not(arg):
                return self._call(torch.sym_not, self._truth(arg, optional))
            case Cmp(op, lhs, rhs):
                return self._call(COMPARISONS[op], self(lhs, optional), self(rhs, optional))
            case Convert(op, arg):
                return self._call(CONVERSIONS[op], self(arg, optional))
            case MathFn(fn, args):
                return self._function(fn, args, optional)
            case _:
                return self._fold(CALLS[type(e)], [self(arg, optional) for arg in e.children])

    def _truth(self, e: Expr, optional: bool) -> Any:
        value = self(e, optional)
        return value if e.kind is SymKind.BOOL else self._call(targets.truth, value)

    def _as(self, kind: SymKind, e: Expr) -> Any:
        """One of two values that perhaps does not matter; both have to be of one type."""
        value = self(e, True)
        return self._call(torch.sym_float, value) if kind is SymKind.FLOAT and e.kind is not kind else value

    def _logic(self, function: Callable[..., Any], args: tuple[Expr, ...], optional: bool) -> Any:
        """The first operand is always looked at, the others perhaps not."""
        values = [self._truth(arg, optional or number > 0) for number, arg in enumerate(args)]
        return self._fold(function, values)

    def _fold(self, function: Callable[..., Any], values: list[Any]) -> Any:
        total = values[0]
        for value in values[1:]:
            total = self._call(function, total, value)
        return total

    def _divided(self, kind: type[Expr], lhs: Any, rhs: Any, optional: bool, divisor: Expr) -> Any:
        if optional and not (isinstance(divisor, Int | Float) and divisor.value):
            return self._call(targets.partial_call, _PARTIAL_NAMES[kind], lhs, rhs)
        return self._call(CALLS[kind], lhs, rhs)

    def _power(self, e: Expr, base: Expr, exp: Expr, optional: bool) -> Any:
        if isinstance(exp, Int) and 0 < exp.value <= _MAX_FACTORS and e.kind is SymKind.INT:
            return self._fold(operator.mul, [self(base, optional)] * exp.value)
        args = [self(base, optional), self(exp, optional)]
        if optional:
            return self._call(targets.partial_call, "pow", *args)
        return self._call(operator.pow, *args)

    def _function(self, fn: MathOp, args: tuple[Expr, ...], optional: bool) -> Any:
        values = [self(arg, optional) for arg in args]
        if fn is MathOp.ROUND_TO:
            values[0] = self._call(torch.sym_float, values[0])
        if optional and fn.value in PARTIAL:
            return self._call(targets.partial_call, fn.value, *values)
        return self._call(FUNCTIONS[fn], *values)
