"""Smart constructors of truth values, conversions and functions."""

from __future__ import annotations

import operator
from collections.abc import Callable

from wrapper_ir.expr.base import Expr, ExprLike, SymKind
from wrapper_ir.expr.build import as_expr, sub
from wrapper_ir.expr.nodes import (
    And,
    Bool,
    Cmp,
    CmpOp,
    Convert,
    ConvertOp,
    Float,
    Int,
    MathFn,
    MathOp,
    Not,
    Or,
)

__all__ = [
    "and_",
    "convert",
    "eq",
    "ge",
    "gt",
    "le",
    "lt",
    "math_fn",
    "ne",
    "not_",
    "or_",
    "to_bool",
    "to_float",
    "to_int",
]

COMPARE: dict[CmpOp, Callable[[float, float], bool]] = {
    CmpOp.EQ: operator.eq,
    CmpOp.NE: operator.ne,
    CmpOp.LT: operator.lt,
    CmpOp.LE: operator.le,
    CmpOp.GT: operator.gt,
    CmpOp.GE: operator.ge,
}
"""What each comparison means on Python numbers."""

_OPPOSITE = {
    CmpOp.EQ: CmpOp.NE,
    CmpOp.NE: CmpOp.EQ,
    CmpOp.LT: CmpOp.GE,
    CmpOp.GE: CmpOp.LT,
    CmpOp.GT: CmpOp.LE,
    CmpOp.LE: CmpOp.GT,
}


def _compare(op: CmpOp, lhs: ExprLike, rhs: ExprLike) -> Expr:
    a, b = as_expr(lhs), as_expr(rhs)
    if isinstance(a, Int | Float | Bool) and isinstance(b, Int | Float | Bool):
        return Bool(COMPARE[op](a.value, b.value))
    if a.kind is SymKind.INT and b.kind is SymKind.INT:
        difference = sub(a, b)
        if isinstance(difference, Int):
            return Bool(COMPARE[op](difference.value, 0))
    return Cmp(op, a, b)


def eq(lhs: ExprLike, rhs: ExprLike) -> Expr:
    """`lhs == rhs` as an expression."""
    return _compare(CmpOp.EQ, lhs, rhs)


def ne(lhs: ExprLike, rhs: ExprLike) -> Expr:
    """`lhs != rhs` as an expression."""
    return _compare(CmpOp.NE, lhs, rhs)


def lt(lhs: ExprLike, rhs: ExprLike) -> Expr:
    """`lhs < rhs` as an expression."""
    return _compare(CmpOp.LT, lhs, rhs)


def le(lhs: ExprLike, rhs: ExprLike) -> Expr:
    """`lhs <= rhs` as an expression."""
    return _compare(CmpOp.LE, lhs, rhs)


def gt(lhs: ExprLike, rhs: ExprLike) -> Expr:
    """`lhs > rhs` as an expression."""
    return _compare(CmpOp.GT, lhs, rhs)


def ge(lhs: ExprLike, rhs: ExprLike) -> Expr:
    """`lhs >= rhs` as an expression."""
    return _compare(CmpOp.GE, lhs, rhs)


def and_(*operands: ExprLike) -> Expr:
    """Conjunction; `and_()` is true. The order of operands is kept: a later one may rely on an earlier."""
    return _connect(And, operands, neutral=True)


def or_(*operands: ExprLike) -> Expr:
    """Disjunction; `or_()` is false. The order of operands is kept."""
    return _connect(Or, operands, neutral=False)


def _connect(cls: type[And] | type[Or], operands: tuple[ExprLike, ...], *, neutral: bool) -> Expr:
    args: dict[Expr, None] = {}
    for operand in operands:
        arg = to_bool(operand)
        for item in arg.args if isinstance(arg, cls) else (arg,):
            if not isinstance(item, Bool):
                args[item] = None
            elif item.value is not neutral:
                # What comes before may fail when evaluated, so it stays; what comes after is never reached.
                args[item] = None
                return _connected(cls, args, neutral)
    return _connected(cls, args, neutral)


def _connected(cls: type[And] | type[Or], args: dict[Expr, None], neutral: bool) -> Expr:
    items = tuple(args)
    if not items:
        return Bool(neutral)
    return items[0] if len(items) == 1 else cls(items)


def not_(operand: ExprLike) -> Expr:
    """Negation; comparisons of ints turn round, those of floats only if equality."""
    arg = to_bool(operand)
    match arg:
        case Bool(value):
            return Bool(not value)
        case Not(inner):
            return inner
        case Cmp(op, lhs, rhs) if op in (CmpOp.EQ, CmpOp.NE) or SymKind.FLOAT not in (lhs.kind, rhs.kind):
            return Cmp(_OPPOSITE[op], lhs, rhs)
        case _:
            return Not(arg)


def convert(op: ConvertOp, operand: ExprLike) -> Expr:
    """The operand converted, or itself if the conversion changes nothing."""
    arg = as_expr(operand)
    match op:
        case ConvertOp.TO_BOOL:
            if isinstance(arg, Int | Float):
                return Bool(bool(arg.value))
            return arg if arg.kind is SymKind.BOOL else Convert(op, arg)
        case ConvertOp.TO_FLOAT:
            if isinstance(arg, Bool) or (isinstance(arg, Int) and abs(arg.value) < 2**1000):
                return Float(float(arg.value))
            return arg if arg.kind is SymKind.FLOAT else Convert(op, arg)
        case ConvertOp.TO_INT | ConvertOp.FLOOR | ConvertOp.CEIL | ConvertOp.ROUND:
            if isinstance(arg, Bool):
                return Int(arg.value)
            return arg if arg.kind is SymKind.INT else Convert(op, arg)


def to_int(operand: ExprLike) -> Expr:
    """The operand as an int, truncated towards zero."""
    return convert(ConvertOp.TO_INT, operand)


def to_float(operand: ExprLike) -> Expr:
    """The operand as a float."""
    return convert(ConvertOp.TO_FLOAT, operand)


def to_bool(operand: ExprLike) -> Expr:
    """True where the operand is not zero."""
    return convert(ConvertOp.TO_BOOL, operand)


def math_fn(fn: MathOp, *operands: ExprLike) -> Expr:
    """A function of its operands; only `abs` and bitwise operations of constants are folded."""
    args = tuple(as_expr(operand) for operand in operands)
    if all(isinstance(arg, Int) for arg in args) and len(args) == fn.arity:
        values = [arg.value for arg in args if isinstance(arg, Int)]
        match fn:
            case MathOp.ABS:
                return Int(abs(values[0]))
            case MathOp.BIT_AND:
                return Int(values[0] & values[1])
            case MathOp.BIT_OR:
                return Int(values[0] | values[1])
            case MathOp.BIT_XOR:
                return Int(values[0] ^ values[1])
            case _:
                pass
    return MathFn(fn, args)


COMPARE_WITH: dict[CmpOp, Callable[[ExprLike, ExprLike], Expr]] = {
    CmpOp.EQ: eq,
    CmpOp.NE: ne,
    CmpOp.LT: lt,
    CmpOp.LE: le,
    CmpOp.GT: gt,
    CmpOp.GE: ge,
}
"""The smart constructor of each comparison."""
