"""Partial expressions: those that may be undefined, or always are, decided by structure alone."""

from __future__ import annotations

from functools import lru_cache

from wrapper_ir.errors import ExpressionError
from wrapper_ir.expr import operators as ops
from wrapper_ir.expr.arithmetic import MAX_BITS
from wrapper_ir.expr.base import Expr, SymKind
from wrapper_ir.expr.evaluate import evaluate
from wrapper_ir.expr.leaves import Int
from wrapper_ir.expr.ranges import bounds
from wrapper_ir.expr.width import int64_symbols, width

_DIVISIONS = (ops.FLOORDIV, ops.CEILDIV, ops.MOD, ops.TRUEDIV)
_ROUNDING = (ops.TO_INT, ops.FLOOR, ops.CEIL, ops.ROUND)
_TOTAL_FUNCTIONS = tuple(ops.OPERATORS.by_name[name] for name in ("tanh", "atan", "asinh"))
_MAX_FLOAT_BITS = 1023
"""Ints of at most this many bits convert to a finite float in any rounding mode."""


@lru_cache(maxsize=16384)
def has_any_value(e: Expr) -> bool:
    """Returns whether evaluation of `e` cannot fail for any values of its symbols and atoms."""
    return not is_partial(e) and all(map(has_any_value, e.args))


def is_partial(e: Expr) -> bool:
    """Returns whether the operator of `e` may be undefined for values of its operands."""
    op, args = e.op, e.args
    if op is None:
        return False
    if op in _DIVISIONS:
        return not _is_nonzero(args[1]) or _may_overflow(e)
    if op is ops.POW:
        return _is_partial_power(e)
    if op in _ROUNDING:
        return args[0].kind is SymKind.FLOAT and not _is_finite(args[0])
    if op in ops.UNARY_FUNCTIONS and op not in _TOTAL_FUNCTIONS:
        return True
    if op in (ops.BIT_AND, ops.BIT_OR, ops.BIT_XOR):
        return any(arg.kind is SymKind.FLOAT and not _is_finite(arg) for arg in args)
    return op is ops.ROUND_TO or _may_overflow(e)


def _is_nonzero(divisor: Expr) -> bool:
    value = divisor.constant
    return value is not None and value != 0


def _is_partial_power(e: Expr) -> bool:
    exp = e.args[1]
    if e.kind is SymKind.FLOAT or type(exp) is not Int or exp.value < 0:
        return True
    return width(e.args[0], {}) * exp.value > MAX_BITS


def _is_finite(e: Expr) -> bool:
    """Returns whether a float is provably neither an infinity nor NaN."""
    return bounds(e, int64_symbols(e)).is_bounded


def _may_overflow(e: Expr) -> bool:
    """Returns whether int operands may be too long for the result, or for their conversion to float."""
    if e.kind is SymKind.FLOAT:
        return any(arg.kind is SymKind.INT and width(arg, {}) > _MAX_FLOAT_BITS for arg in e.args)
    return e.op in (ops.ADD, ops.MUL) and width(e, {}) > MAX_BITS


def without_value(e: Expr) -> Expr | None:
    """Returns the first part of `e` that is always evaluated and never defined; None if there is none."""
    if has_any_value(e):
        return None
    evaluated = e.args[:1] if e.op is not None and e.op.lazy else e.args
    undefined = next((part for part in map(without_value, evaluated) if part is not None), None)
    return e if undefined is None and is_partial(e) and _has_no_value(e) else undefined


def _has_no_value(e: Expr) -> bool:
    """Returns whether the operator of `e` is undefined for all values of its operands."""
    if e.op in _DIVISIONS:
        divisor = bounds(e.args[1], {})
        if divisor.is_point and divisor.lo == 0:
            return True
    if e.op is ops.POW and e.kind is SymKind.INT and bounds(e.args[1], {}).high < 0:
        return True
    if e.free_symbols or e.free_atoms:
        return False
    try:
        evaluate(e, {})
    except ExpressionError as error:
        return error.code == "WIR402"
    return False
