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
from fx_converter.targets.symbolic import EXACT, PARTIAL
from wrapper_ir.expr import Apply, Expr, Int, Operator, SymKind
from wrapper_ir.expr import operators as ops

__all__ = ["CALLS", "Calculator"]

# Any in this file: nodes, numbers, symbolic numbers, and the functions over them.
_MAX_FACTORS = 8  # powers up to here are products

CALLS: Mapping[Operator, Callable[..., Any]] = {
    ops.ADD: operator.add,
    ops.MUL: operator.mul,
    ops.FLOORDIV: operator.floordiv,
    ops.MOD: operator.mod,
    ops.TRUEDIV: operator.truediv,
    ops.POW: targets.power,
    ops.MIN: torch.sym_min,
    ops.MAX: torch.sym_max,
    ops.AND: operator.and_,
    ops.OR: operator.or_,
    ops.NOT: torch.sym_not,
    ops.WHERE: targets.choose,
    ops.EQ: operator.eq,
    ops.NE: operator.ne,
    ops.LT: operator.lt,
    ops.LE: operator.le,
    ops.GT: operator.gt,
    ops.GE: operator.ge,
    ops.TO_INT: torch.sym_int,
    ops.TO_FLOAT: torch.sym_float,
    ops.TO_BOOL: targets.truth,
    ops.FLOOR: math.floor,
    ops.CEIL: math.ceil,
    ops.ROUND: round,
    ops.ABS: operator.abs,
    ops.BIT_AND: operator.and_,
    ops.BIT_OR: operator.or_,
    ops.BIT_XOR: operator.xor,
    ops.ROUND_TO: round,
    **{op: EXACT[op.name] for op in ops.UNARY_FUNCTIONS},
}
"""A function for every operator but CEILDIV, which is written with FLOORDIV."""


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
        if e.constant is not None:
            return e.constant
        found = self._known.get((e, optional))
        if found is None:
            found = self._compute(e, optional)
            if not e.free_atoms:
                self._known[e, optional] = found
        return found

    def _compute(self, e: Expr, optional: bool) -> Any:
        match e:
            case Apply(ops.CEILDIV, (lhs, Int(divisor) as rhs)) if divisor > 0:
                rounded = self._call(operator.add, self(lhs, optional), divisor - 1)
                return self._divided(ops.FLOORDIV, rounded, divisor, optional, rhs)
            case Apply(ops.CEILDIV, (lhs, rhs)):
                negative = self._call(operator.neg, self(rhs, optional))
                quotient = self._divided(ops.FLOORDIV, self(lhs, optional), negative, optional, rhs)
                return self._call(operator.neg, quotient)
            case Apply(ops.FLOORDIV | ops.MOD | ops.TRUEDIV as op, (lhs, rhs)):
                return self._divided(op, self(lhs, optional), self(rhs, optional), optional, rhs)
            case Apply(ops.POW, (base, exp)):
                return self._power(e, base, exp, optional)
            case Apply(ops.WHERE, (cond, lhs, rhs)):
                sides = [self._as(e.kind, side) for side in (lhs, rhs)]
                return self._call(CALLS[ops.WHERE], self._truth(cond, optional), *sides)
            case Apply(ops.AND | ops.OR as op, args):
                return self._logic(CALLS[op], args, optional)
            case Apply(ops.NOT, (arg,)):
                return self._call(torch.sym_not, self._truth(arg, optional))
            case Apply(ops.TO_INT | ops.TO_FLOAT, (arg,)) if arg.kind is SymKind.BOOL:
                yes, no = (1, 0) if e.kind is SymKind.INT else (1.0, 0.0)
                return self._call(
                    CALLS[ops.WHERE], self(arg, optional), yes, no
                )  # torch's own look at the hint
            case Apply(ops.TO_INT | ops.FLOOR | ops.CEIL | ops.ROUND as op, (arg,)) if (
                arg.kind is SymKind.FLOAT
            ):
                return self._partial(op, optional, self(arg, optional))
            case Apply(op, args) if op in ops.FUNCTIONS:
                return self._function(op, args, optional)
            case Apply(op, (arg,)):
                return self._call(CALLS[op], self(arg, optional))
            case Apply(op, args):
                return self._fold(CALLS[op], [self(arg, optional) for arg in args])
            case _:
                return self._leaf(e)

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

    def _divided(self, op: Operator, lhs: Any, rhs: Any, optional: bool, divisor: Expr) -> Any:
        if divisor.constant or (isinstance(rhs, int) and rhs):
            return self._call(CALLS[op], lhs, rhs)
        return self._partial(op, optional, lhs, rhs)

    def _power(self, e: Expr, base: Expr, exp: Expr, optional: bool) -> Any:
        if type(exp) is Int and 0 < exp.value <= _MAX_FACTORS and e.kind is SymKind.INT:
            return self._fold(operator.mul, [self(base, optional)] * exp.value)
        return self._partial(ops.POW, optional, self(base, optional), self(exp, optional))

    def _function(self, op: Operator, args: tuple[Expr, ...], optional: bool) -> Any:
        values = [self(arg, optional) for arg in args]
        if op is ops.ROUND_TO:
            values[0] = self._call(torch.sym_float, values[0])
        if op.name in PARTIAL:
            return self._partial(op, optional, *values)
        return self._call(CALLS[op], *values)

    def _partial(self, op: Operator, optional: bool, *values: Any) -> Any:
        """A function that has no value for some arguments."""
        return self._call(targets.partial_call if optional else targets.total_call, op.name, *values)
