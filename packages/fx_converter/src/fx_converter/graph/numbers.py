"""Expressions as calls of Python's and torch's functions of numbers, one call a node.

The same walk creates graph nodes, and symbolic numbers for fake values.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Generic, TypeVar

from fx_converter import targets
from fx_converter.targets.symbolic import EXACT, FUNCTIONS, Function
from wrapper_ir.expr import Apply, Expr, Int, Operator, SymKind
from wrapper_ir.expr import operators as ops
from wrapper_ir.expr.partial import has_any_value, is_partial

N = TypeVar("N")
_MAX_FACTORS = 8  # powers up to this exponent are products

CALLS: Mapping[Operator, Function] = {
    op: EXACT[op.name] if op in ops.UNARY_FUNCTIONS else FUNCTIONS[op.name]
    for op in ops.OPERATORS.rows
    if op is not ops.CEILDIV
}
"""A function for every operator but CEILDIV, which is written with FLOORDIV."""
_LAZY: Mapping[Operator, Function] = {ops.AND: targets.both, ops.OR: targets.either}
_TRUTHS: Mapping[Operator, Operator] = {ops.MIN: ops.BIT_AND, ops.MAX: ops.BIT_OR}
"""The operators for minimum and maximum of bools."""


class Calculator(Generic[N]):
    """Walks expressions; `leaf` returns symbols and atoms, `call` applies a function. Each expression is
    computed once.

    A graph computes all operands of conditions. Operands that Python would skip are computed by
    `targets.partial_call` if they may have no value, and the condition requires a value only of the operand
    that it selects.
    """

    def __init__(self, leaf: Callable[[Expr], N], call: Callable[..., N]) -> None:
        self._leaf = leaf
        self._call = call
        self._values: dict[tuple[Expr, bool], N | float] = {}

    def __call__(self, e: Expr, optional: bool = False) -> N | float:
        """Returns the value of `e`; `optional` if the value may be unused."""
        if e.constant is not None:
            return e.constant
        optional = optional and not has_any_value(e)
        value = self._values.get((e, optional))
        if value is None:
            value = self._compute(e, optional)
            if not e.free_atoms:
                self._values[e, optional] = value
        return value

    def _compute(self, e: Expr, optional: bool) -> N | float:
        match e:
            case Apply(ops.CEILDIV, (lhs, rhs)):
                return self._ceildiv(e, lhs, rhs, optional)
            case Apply(ops.POW, (base, Int(exp))) if (
                0 < exp <= _MAX_FACTORS and base.kind is not SymKind.FLOAT
            ):
                return self._fold(ops.MUL, [self._whole(base, optional)] * exp, optional, is_partial(e))
            case Apply(ops.WHERE, (cond, lhs, rhs)):
                sides = [self._as(e.kind, side) for side in (lhs, rhs)]
                return self._apply(ops.WHERE, optional, False, self._truth(cond, optional), *sides)
            case Apply(ops.AND | ops.OR as op, args):
                return self._logic(op, args, optional)
            case Apply(ops.NOT, (arg,)):
                return self._apply(ops.NOT, optional, False, self._truth(arg, optional))
            case Apply(ops.TO_BOOL, (arg,)):
                return self._truth(arg, optional)
            case Apply(ops.MIN | ops.MAX as op, args) if e.kind is SymKind.BOOL:
                return self._fold(_TRUTHS[op], [self(arg, optional) for arg in args], optional, False)
            case Apply(op, (arg,)) if arg.kind is SymKind.BOOL and op in ops.CONVERSIONS:
                yes, no = (1.0, 0.0) if e.kind is SymKind.FLOAT else (1, 0)
                return self._apply(ops.WHERE, optional, False, self(arg, optional), yes, no)
            case Apply(ops.BIT_AND | ops.BIT_OR | ops.BIT_XOR as op, args):
                return self._apply(
                    op, optional, False, *(self._converted(SymKind.INT, arg, optional) for arg in args)
                )
            case Apply(ops.ROUND_TO as op, (x, digits)):
                values = (
                    self._converted(SymKind.FLOAT, x, optional),
                    self._converted(SymKind.INT, digits, optional),
                )
                return self._apply(op, optional, True, *values)
            case Apply(op, args):
                return self._fold(op, [self._whole(arg, optional) for arg in args], optional, is_partial(e))
            case _:
                return self._leaf(e)

    # --- operands

    def _truth(self, e: Expr, optional: bool) -> N | float:
        value = self(e, optional)
        return (
            value
            if e.kind is SymKind.BOOL
            else self._apply(ops.TO_BOOL, not has_any_value(e) and optional, False, value)
        )

    def _whole(self, e: Expr, optional: bool) -> N | float:
        """Returns the value as a number: torch has no arithmetic on symbolic bools."""
        return self._converted(SymKind.INT, e, optional) if e.kind is SymKind.BOOL else self(e, optional)

    def _converted(self, kind: SymKind, e: Expr, optional: bool) -> N | float:
        if e.kind is kind:
            return self(e, optional)
        constant = e.constant
        if type(constant) is bool:
            return float(constant) if kind is SymKind.FLOAT else int(constant)
        return self((ops.TO_FLOAT if kind is SymKind.FLOAT else ops.TO_INT)(e), optional)

    def _as(self, kind: SymKind, e: Expr) -> N | float:
        """Returns one of two values of which one is unused; both must have one type."""
        return self._converted(kind, e, True)

    # --- operators

    def _apply(self, op: Operator, optional: bool, partial: bool, *values: N | float) -> N | float:
        """Applies an operator to values. `optional` ones may be `NoValue`."""
        if optional:
            return self._call(targets.partial_call, op.name, *values)
        if op in (ops.FLOORDIV, ops.MOD) and type(values[-1]) is int and values[-1]:
            partial = False  # a constant divisor
        return self._call(targets.total_call, op.name, *values) if partial else self._call(CALLS[op], *values)

    def _logic(self, op: Operator, args: tuple[Expr, ...], optional: bool) -> N | float:
        """Evaluates the first operand always, the others if needed."""
        total = self._truth(args[0], optional)
        for arg in args[1:]:
            value = self._truth(arg, True)
            if optional or has_any_value(arg):
                total = self._apply(op, optional, False, total, value)
            else:
                total = self._call(_LAZY[op], total, value)
        return total

    def _fold(self, op: Operator, values: Sequence[N | float], optional: bool, partial: bool) -> N | float:
        """Applies an operator to one value, to two, or to many from the left."""
        total, *rest = values
        if not rest:  # a power with exponent 1
            return total if op is ops.MUL else self._apply(op, optional, partial, total)
        for value in rest:
            total = self._apply(op, optional, partial, total, value)
        return total

    def _ceildiv(self, e: Expr, lhs: Expr, rhs: Expr, optional: bool) -> N | float:
        numerator = self._whole(lhs, optional)
        if isinstance(rhs, Int) and rhs.value > 0 and lhs.kind is not SymKind.FLOAT:
            rounded = self._apply(ops.ADD, optional, False, numerator, rhs.value - 1)
            return self._apply(ops.FLOORDIV, optional, False, rounded, rhs.value)
        divisor = self._negated(self._whole(rhs, optional), optional)
        quotient = self._apply(ops.FLOORDIV, optional, is_partial(e), numerator, divisor)
        return self._negated(quotient, optional)

    def _negated(self, value: N | float, optional: bool) -> N | float:
        if optional:
            return self._call(targets.partial_call, "neg", value)
        return self._call(operator.neg, value)
