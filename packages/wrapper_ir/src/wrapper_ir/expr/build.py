"""Smart constructors: what compilers call to make expressions.

They fold constants, flatten, combine like terms and order operands, and never change a value: int
arithmetic is exact, and float arithmetic is neither reassociated nor reordered. An operation that would
fail (a division by zero) is left in the expression, where evaluation reports it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import lru_cache

from wrapper_ir.errors import ExpressionError
from wrapper_ir.expr.base import Expr, ExprLike, SymKind
from wrapper_ir.expr.nodes import (
    Add,
    Bool,
    CeilDiv,
    Float,
    FloorDiv,
    Int,
    Max,
    Min,
    Mod,
    Mul,
    Pow,
    TrueDiv,
    Where,
)
from wrapper_ir.expr.order import factor_key, term_key

__all__ = [
    "add",
    "as_expr",
    "as_int",
    "ceildiv",
    "floordiv",
    "max_",
    "min_",
    "mod",
    "mul",
    "neg",
    "pow_",
    "sub",
    "truediv",
    "where",
]

_MAX_POWER_BITS = 4096
_MAX_FACTORS = 4
_CACHED = 4096


def as_expr(value: ExprLike) -> Expr:
    """A node from a node or a Python number; bools become `Bool`."""
    if isinstance(value, Expr):
        return value
    if isinstance(value, bool):
        return Bool(value)
    if isinstance(value, int):
        return Int(value)
    if isinstance(value, float):
        return Float(value)
    raise ExpressionError("WIR401", f"{value!r} of type {type(value).__name__} is no expression")


def as_int(value: ExprLike) -> int | None:
    """The number if `value` is an integer constant, else None."""
    if type(value) is Int:
        return value.value
    return int(value) if isinstance(value, int) else None


def add(*operands: ExprLike) -> Expr:
    """The sum; `add()` is 0."""
    if len(operands) == 2:
        left, right = map(as_int, operands)
        if left is not None and right is not None:
            return Int(left + right)
    return _add(tuple(map(as_expr, operands)))


# Layouts repeat a few sums, products and quotients all over a program, hence the (bounded) caches. They
# stand behind `as_expr`, because 1, 1.0 and True would be one key.
@lru_cache(maxsize=_CACHED)
def _add(args: tuple[Expr, ...]) -> Expr:
    if any(arg.kind is SymKind.FLOAT for arg in args):
        return _fold_floats(Add, list(args))
    terms: dict[tuple[Expr, ...], int] = {}
    for arg in args:
        _collect(arg, 1, terms)
    return _sum_of(terms)


def sub(lhs: ExprLike, rhs: ExprLike) -> Expr:
    """The difference."""
    return add(lhs, mul(-1, rhs))


def neg(operand: ExprLike) -> Expr:
    """The operand times -1."""
    return mul(-1, operand)


def mul(*operands: ExprLike) -> Expr:
    """The product; `mul()` is 1. An int constant times a sum is multiplied out."""
    if len(operands) == 2:
        left, right = map(as_int, operands)
        if left is not None and right is not None:
            return Int(left * right)
    return _mul(tuple(map(as_expr, operands)))


@lru_cache(maxsize=_CACHED)
def _mul(args: tuple[Expr, ...]) -> Expr:
    if any(arg.kind is SymKind.FLOAT for arg in args):
        return _fold_floats(Mul, [arg for arg in args if arg != Int(1)] or [Int(1)])
    coefficient, factors = _factors_of(args)
    if coefficient == 0:
        return Int(0)
    if len(factors) == 1 and isinstance(factors[0], Add):
        terms: dict[tuple[Expr, ...], int] = {}
        _collect(factors[0], coefficient, terms)
        return _sum_of(terms)
    factors.sort(key=factor_key)
    return _term(coefficient, tuple(factors))


def _factors_of(args: Iterable[Expr]) -> tuple[int, list[Expr]]:
    """The constant part of an int product and its other factors, nested products flattened."""
    coefficient = 1
    factors: list[Expr] = []
    for arg in args:
        if isinstance(arg, Int | Bool):
            coefficient *= arg.value
        elif isinstance(arg, Mul):
            inner, more = _factors_of(arg.args)
            coefficient *= inner
            factors += more
        else:
            factors.append(arg)
    return coefficient, factors


def _collect(e: Expr, scale: int, terms: dict[tuple[Expr, ...], int]) -> None:
    """Add `scale * e` to `terms`, which maps sorted factors to their coefficient; () is the constant."""
    if isinstance(e, Add):
        for arg in e.args:
            _collect(arg, scale, terms)
        return
    coefficient, factors = _factors_of((e,))
    if len(factors) == 1 and isinstance(factors[0], Add):
        _collect(factors[0], scale * coefficient, terms)
        return
    factors.sort(key=factor_key)
    key = tuple(factors)
    terms[key] = terms.get(key, 0) + scale * coefficient


def _sum_of(terms: dict[tuple[Expr, ...], int]) -> Expr:
    constant = terms.pop((), 0)
    order = sorted((key for key, scale in terms.items() if scale), key=term_key)
    args = [_term(terms[key], key) for key in order]
    if constant or not args:
        args.append(Int(constant))
    return args[0] if len(args) == 1 else Add(tuple(args))


def _term(coefficient: int, factors: tuple[Expr, ...]) -> Expr:
    if not factors:
        return Int(coefficient)
    if coefficient != 1:
        return Mul((Int(coefficient), *factors))
    if len(factors) > 1:
        return Mul(factors)
    # A lone bool counts as a number here, so it has to be converted, not passed on as it is.
    return factors[0] if factors[0].kind is not SymKind.BOOL else Mul((Int(1), factors[0]))


def _fold_floats(cls: type[Add] | type[Mul], args: list[Expr]) -> Expr:
    """A float sum or product, left to right as given; constants at the front are folded."""
    while (
        len(args) > 1 and (left := _number(args[0])) is not None and (right := _number(args[1])) is not None
    ):
        try:
            folded = left + right if cls is Add else left * right
        except OverflowError:
            break
        args[:2] = [as_expr(folded)]
    return args[0] if len(args) == 1 else cls(tuple(args))


def _number(e: Expr) -> int | float | None:
    return e.value if isinstance(e, Int | Float) else None


def _is_int(*args: Expr) -> bool:
    return all(arg.kind is SymKind.INT for arg in args)


def _divide_terms(e: Expr, divisor: int) -> tuple[Expr, Expr]:
    """Split `e` into `divisor * quotient + rest`, taking the terms that divide without remainder."""
    terms: dict[tuple[Expr, ...], int] = {}
    _collect(e, 1, terms)
    quotient = {key: scale // divisor for key, scale in terms.items() if scale % divisor == 0}
    rest = {key: scale for key, scale in terms.items() if scale % divisor}
    return _sum_of(quotient), _sum_of(rest)


def _cancel(e: Expr, divisor: int, *, up: bool) -> tuple[Expr, int]:
    """Divide `e` and `divisor > 0` by what all coefficients share; the constant is rounded like the result."""
    terms: dict[tuple[Expr, ...], int] = {}
    _collect(e, 1, terms)
    constant = terms.pop((), 0)
    common = math.gcd(divisor, *terms.values())
    if common == 1:
        return e, divisor
    rounded = -(-constant // common) if up else constant // common
    reduced = {key: scale // common for key, scale in terms.items()}
    reduced[()] = rounded
    return _sum_of(reduced), divisor // common


def floordiv(lhs: ExprLike, rhs: ExprLike) -> Expr:
    """`lhs // rhs`, rounded towards minus infinity."""
    return _floordiv(as_expr(lhs), as_expr(rhs))


@lru_cache(maxsize=_CACHED)
def _floordiv(a: Expr, b: Expr) -> Expr:
    if not isinstance(b, Int) or b.value == 0 or not _is_int(a):
        return FloorDiv(a, b)
    divisor = b.value
    if isinstance(a, Int):
        return Int(a.value // divisor)
    if divisor < 0:
        return a * -1 if divisor == -1 else FloorDiv(a, b)
    whole, rest = _divide_terms(a, divisor)
    if isinstance(rest, Int):
        return add(whole, floordiv(rest, b))
    reduced, smaller = _cancel(rest, divisor, up=False)
    if smaller != divisor:
        return add(whole, floordiv(reduced, smaller))
    if isinstance(rest, FloorDiv) and isinstance(rest.rhs, Int) and rest.rhs.value > 0:
        return add(whole, floordiv(rest.lhs, rest.rhs.value * divisor))
    return add(whole, FloorDiv(rest, Int(divisor)))


def ceildiv(lhs: ExprLike, rhs: ExprLike) -> Expr:
    """`lhs / rhs` rounded towards plus infinity."""
    return _ceildiv(as_expr(lhs), as_expr(rhs))


@lru_cache(maxsize=_CACHED)
def _ceildiv(a: Expr, b: Expr) -> Expr:
    if not isinstance(b, Int) or b.value == 0 or not _is_int(a):
        return CeilDiv(a, b)
    divisor = b.value
    if isinstance(a, Int):
        return Int(-(-a.value // divisor))
    if divisor < 0:
        return a * -1 if divisor == -1 else CeilDiv(a, b)
    whole, rest = _divide_terms(a, divisor)
    if isinstance(rest, Int):
        return add(whole, ceildiv(rest, b))
    reduced, smaller = _cancel(rest, divisor, up=True)
    if smaller != divisor:
        return add(whole, ceildiv(reduced, smaller))
    if isinstance(rest, CeilDiv) and isinstance(rest.rhs, Int) and rest.rhs.value > 0:
        return add(whole, ceildiv(rest.lhs, rest.rhs.value * divisor))
    return add(whole, CeilDiv(rest, Int(divisor)))


def mod(lhs: ExprLike, rhs: ExprLike) -> Expr:
    """`lhs % rhs` with the sign of `rhs`."""
    return _mod(as_expr(lhs), as_expr(rhs))


@lru_cache(maxsize=_CACHED)
def _mod(a: Expr, b: Expr) -> Expr:
    if not isinstance(b, Int) or b.value == 0 or not _is_int(a):
        return Mod(a, b)
    if isinstance(a, Int):
        return Int(a.value % b.value)
    rest = _divide_terms(a, b.value)[1]
    if isinstance(rest, Int):
        return Int(rest.value % b.value)
    if isinstance(rest, Mod) and isinstance(rest.rhs, Int) and rest.rhs.value % b.value == 0:
        return mod(rest.lhs, b)
    return Mod(rest, b)


def min_(*operands: ExprLike) -> Expr:
    """The least of at least one operand."""
    return _extremum(Min, operands)


def max_(*operands: ExprLike) -> Expr:
    """The greatest of at least one operand."""
    return _extremum(Max, operands)


def _extremum(cls: type[Min] | type[Max], operands: tuple[ExprLike, ...]) -> Expr:
    args = [as_expr(operand) for operand in operands]
    if not args:
        raise ExpressionError("WIR401", f"{cls.__name__} needs an operand")
    if len(args) == 1:
        return args[0]
    if not _is_int(*args):
        return cls(tuple(args))
    constants: list[int] = []
    rest: dict[Expr, None] = {}
    for arg in args:
        for item in arg.args if isinstance(arg, cls) else (arg,):
            if isinstance(item, Int):
                constants.append(item.value)
            else:
                rest[item] = None
    ordered = sorted(rest, key=factor_key)
    if constants:
        ordered.append(Int(min(constants) if cls is Min else max(constants)))
    return ordered[0] if len(ordered) == 1 else cls(tuple(ordered))


def where(cond: ExprLike, lhs: ExprLike, rhs: ExprLike) -> Expr:
    """`lhs` if `cond` else `rhs`."""
    c, a, b = as_expr(cond), as_expr(lhs), as_expr(rhs)
    if isinstance(c, Bool) and a.kind is b.kind:
        return a if c.value else b
    return a if a == b else Where(c, a, b)


def truediv(lhs: ExprLike, rhs: ExprLike) -> Expr:
    """The quotient as a float."""
    a, b = as_expr(lhs), as_expr(rhs)
    left, right = _number(a), _number(b)
    if left is not None and right:
        try:
            return Float(left / right)
        except OverflowError:
            return TrueDiv(a, b)
    return TrueDiv(a, b)


def pow_(base: ExprLike, exp: ExprLike) -> Expr:
    """The power; int powers need an exponent >= 0. Small ones are products, the one spelling of `x*x`."""
    a, b = as_expr(base), as_expr(exp)
    if a.kind is SymKind.INT and isinstance(b, Int):
        if b.value == 0:
            return Int(1)
        if b.value == 1:
            return a
        if not isinstance(a, Int) and 1 < b.value <= _MAX_FACTORS:
            return mul(*[a] * b.value)
        if isinstance(a, Int) and b.value > 1 and a.value.bit_length() * b.value <= _MAX_POWER_BITS:
            return Int(a.value**b.value)
    if isinstance(a, Float) and isinstance(b, Float | Int) and a.value > 0:
        try:
            return Float(a.value**b.value)
        except OverflowError:
            return Pow(a, b)
    return Pow(a, b)
