"""Smart constructors of truth values and conversions, and `apply` for any operator."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from wrapper_ir.expr import build
from wrapper_ir.expr import operators as ops
from wrapper_ir.expr.base import Expr, ExprLike, Operator, SymKind
from wrapper_ir.expr.build import as_expr
from wrapper_ir.expr.leaves import Bool, Float, Int
from wrapper_ir.expr.operators import AND, EQ, GE, GT, LE, LT, NE, NOT, OR

_OPPOSITE: Mapping[Operator, Operator] = {EQ: NE, NE: EQ, LT: GE, GE: LT, GT: LE, LE: GT}
_FOLDED = frozenset({ops.ABS, ops.BIT_AND, ops.BIT_OR, ops.BIT_XOR})
"""Operators that are folded if all operands are int constants."""


def apply(op: Operator, *operands: ExprLike) -> Expr:
    """Applies an operator to operands, simplified as by its smart constructor."""
    smart = _SMART.get(op)
    if smart is not None:
        return smart(*operands)
    args = tuple(map(as_expr, operands))
    if op in _OPPOSITE:
        return _compare(op, *args)
    if op in ops.CONVERSIONS:
        return _convert(op, *args)
    if op in _FOLDED and all(type(arg) is Int for arg in args):
        return as_expr(op.evaluate(*[arg.constant for arg in args]))
    return op(*args)


def _compare(op: Operator, a: Expr, b: Expr) -> Expr:
    lhs, rhs = a.constant, b.constant
    if lhs is not None and rhs is not None:
        return Bool(bool(op.evaluate(lhs, rhs)))
    if a.kind is SymKind.INT and b.kind is SymKind.INT:
        difference = build.sub(a, b).constant
        if difference is not None:
            return Bool(bool(op.evaluate(difference, 0)))
    return op(a, b)


def eq(lhs: ExprLike, rhs: ExprLike) -> Expr:
    """Returns `lhs == rhs` as an expression."""
    return apply(EQ, lhs, rhs)


def ne(lhs: ExprLike, rhs: ExprLike) -> Expr:
    """Returns `lhs != rhs` as an expression."""
    return apply(NE, lhs, rhs)


def lt(lhs: ExprLike, rhs: ExprLike) -> Expr:
    """Returns `lhs < rhs` as an expression."""
    return apply(LT, lhs, rhs)


def le(lhs: ExprLike, rhs: ExprLike) -> Expr:
    """Returns `lhs <= rhs` as an expression."""
    return apply(LE, lhs, rhs)


def gt(lhs: ExprLike, rhs: ExprLike) -> Expr:
    """Returns `lhs > rhs` as an expression."""
    return apply(GT, lhs, rhs)


def ge(lhs: ExprLike, rhs: ExprLike) -> Expr:
    """Returns `lhs >= rhs` as an expression."""
    return apply(GE, lhs, rhs)


def and_(*operands: ExprLike) -> Expr:
    """Returns the conjunction; `and_()` is true. Operands keep their order, on which they may rely."""
    return _connect(AND, operands, neutral=True)


def or_(*operands: ExprLike) -> Expr:
    """Returns the disjunction; `or_()` is false. Operands keep their order."""
    return _connect(OR, operands, neutral=False)


def _connect(op: Operator, operands: tuple[ExprLike, ...], *, neutral: bool) -> Expr:
    args: dict[Expr, None] = {}
    for operand in operands:
        arg = to_bool(operand)
        for item in arg.args if arg.op is op else (arg,):
            if type(item) is not Bool:
                args[item] = None
            elif item.value is not neutral:
                # Earlier operands may fail when evaluated, so they stay; later ones are never evaluated.
                return op(*args, item) if args else item
    if len(args) < 2:
        return next(iter(args), Bool(neutral))
    return op(*args)


def not_(operand: ExprLike) -> Expr:
    """Returns the negation. It inverts comparisons of ints, and of floats if they test equality (NaN)."""
    arg = to_bool(operand)
    if arg.constant is not None:
        return Bool(not arg.constant)
    if arg.op is NOT:
        return arg.args[0]
    opposite = _OPPOSITE.get(arg.op) if arg.op is not None else None
    if opposite and (opposite in (EQ, NE) or all(side.kind is not SymKind.FLOAT for side in arg.args)):
        return opposite(*arg.args)
    return NOT(arg)


def _convert(op: Operator, arg: Expr) -> Expr:
    """Returns the converted operand, or the operand itself if it has the kind already."""
    kind = op.result(())
    value = arg.constant
    match kind:
        case SymKind.BOOL if value is not None:
            return Bool(bool(value))
        case SymKind.FLOAT if type(value) is bool or (type(value) is int and abs(value) < 2**1000):
            return Float(float(value))
        case SymKind.INT if type(value) is bool:
            return Int(value)
        case _:
            return arg if arg.kind is kind else op(arg)


def to_int(operand: ExprLike) -> Expr:
    """Converts the operand to an int, truncated toward zero."""
    return apply(ops.TO_INT, operand)


def to_float(operand: ExprLike) -> Expr:
    """Converts the operand to a float."""
    return apply(ops.TO_FLOAT, operand)


def to_bool(operand: ExprLike) -> Expr:
    """Converts the operand to a bool: true if it is not zero."""
    return apply(ops.TO_BOOL, operand)


_SMART: Mapping[Operator, Callable[..., Expr]] = {
    ops.ADD: build.add, ops.MUL: build.mul, ops.MIN: build.min_, ops.MAX: build.max_,
    ops.FLOORDIV: build.floordiv, ops.CEILDIV: build.ceildiv, ops.MOD: build.mod,
    ops.TRUEDIV: build.truediv, ops.POW: build.pow_, ops.WHERE: build.where, AND: and_, OR: or_, NOT: not_,
}  # fmt: skip
"""Smart constructors of operators with specific rules."""
