"""Smart constructors of arithmetic, which compilers call to build expressions.

They fold constants, flatten, combine like terms and order operands, and never change a value: int arithmetic
is exact, and float arithmetic is neither reassociated nor reordered. An operation that would fail (a division
by zero) stays in the expression, and evaluation reports it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import lru_cache
from types import MappingProxyType

from wrapper_ir.errors import ExpressionError
from wrapper_ir.expr.arithmetic import power
from wrapper_ir.expr.base import Expr, ExprLike, Operator, SymKind
from wrapper_ir.expr.leaves import Bool, Float, Int
from wrapper_ir.expr.operators import ADD, CEILDIV, FLOORDIV, MAX, MIN, MOD, MUL, POW, TRUEDIV, WHERE
from wrapper_ir.expr.order import factor_key, term_key

_MAX_FACTORS = 4
_MAX_DEGREE = 256
_CACHED = 4096


def as_expr(value: ExprLike) -> Expr:
    """Converts a Python number to a constant; bools become `Bool`, and nodes stay as they are."""
    match value:
        case Expr():
            return value
        case bool():
            return Bool(value)
        case int():
            return Int(value)
        case float():
            return Float(value)
    raise ExpressionError("WIR401", f"{value!r} of type {type(value).__name__} is not an expression")


def as_int(value: ExprLike) -> int | None:
    """Returns the number of an integer constant, None for any other operand."""
    if type(value) is Int:
        return value.value
    return int(value) if isinstance(value, int) else None


def add(*operands: ExprLike) -> Expr:
    """Returns the sum; `add()` is 0."""
    if len(operands) == 2:
        lhs, rhs = map(as_int, operands)
        if lhs is not None and rhs is not None:
            return Int(lhs + rhs)
    return _add(tuple(map(as_expr, operands)))


# Layouts repeat a few sums, products and quotients throughout a program, hence the (bounded) caches. They
# follow `as_expr`, because 1, 1.0 and True would be one key.
@lru_cache(maxsize=_CACHED)
def _add(args: tuple[Expr, ...]) -> Expr:
    if any(arg.kind is SymKind.FLOAT for arg in args):
        return _fold_floats(ADD, list(args))
    return sum_of(_terms_of(args))


def sub(lhs: ExprLike, rhs: ExprLike) -> Expr:
    """Returns the difference."""
    return add(lhs, mul(-1, rhs))


def neg(operand: ExprLike) -> Expr:
    """Returns the operand times -1."""
    return mul(-1, operand)


def mul(*operands: ExprLike) -> Expr:
    """Returns the product; `mul()` is 1. An int constant is distributed over a sum."""
    if len(operands) == 2:
        lhs, rhs = map(as_int, operands)
        if lhs is not None and rhs is not None:
            return Int(lhs * rhs)
    return _mul(tuple(map(as_expr, operands)))


@lru_cache(maxsize=_CACHED)
def _mul(args: tuple[Expr, ...]) -> Expr:
    if any(arg.kind is SymKind.FLOAT for arg in args):
        return _fold_floats(MUL, [arg for arg in args if arg != Int(1)] or [Int(1)])
    coefficient, factors = _factors_of(args)
    if coefficient == 0:
        return Int(0)
    if len(factors) == 1 and factors[0].op is ADD:
        return sum_of(_terms_of(factors, coefficient))
    factors.sort(key=factor_key)
    return _term(coefficient, tuple(factors))


@lru_cache(maxsize=_CACHED)
def _degree(e: Expr) -> int:
    """Returns the number of factors of a flattened product, which nested powers double at each level."""
    return sum([_degree(arg) for arg in e.args]) if e.op is MUL else 1


def _factors_of(args: Iterable[Expr]) -> tuple[int, list[Expr]]:
    """Returns the constant part of an int product and its other factors, with nested products flattened."""
    coefficient = 1
    factors: list[Expr] = []
    for arg in args:
        value = arg.constant
        if value is not None:
            coefficient *= int(value)
        elif arg.op is MUL and _degree(arg) <= _MAX_DEGREE:
            inner, more = _factors_of(arg.args)
            coefficient *= inner
            factors += more
        else:
            factors.append(arg)
    return coefficient, factors


def _terms_of(args: Iterable[Expr], scale: int = 1) -> dict[tuple[Expr, ...], int]:
    """Returns the terms of `scale` times the sum of `args`, as `_collect` adds them."""
    terms: dict[tuple[Expr, ...], int] = {}
    for arg in args:
        _collect(arg, scale, terms)
    return terms


def _collect(e: Expr, scale: int, terms: dict[tuple[Expr, ...], int]) -> None:
    """Adds `scale * e` to `terms`, which maps sorted factors to their coefficient; () is the constant."""
    if e.op is ADD:
        for arg in e.args:
            _collect(arg, scale, terms)
        return
    coefficient, factors = _factors_of((e,))
    if len(factors) == 1 and factors[0].op is ADD:
        _collect(factors[0], scale * coefficient, terms)
        return
    factors.sort(key=factor_key)
    key = tuple(factors)
    terms[key] = terms.get(key, 0) + scale * coefficient


def sum_of(terms: Mapping[tuple[Expr, ...], int]) -> Expr:
    """Returns the sum of coefficients times factors, in a fixed order, the constant last."""
    order = sorted((factors for factors, scale in terms.items() if scale and factors), key=term_key)
    args = [_term(terms[factors], factors) for factors in order]
    constant = terms.get((), 0)
    if constant or not args:
        args.append(Int(constant))
    return args[0] if len(args) == 1 else ADD(*args)


def _term(coefficient: int, factors: tuple[Expr, ...]) -> Expr:
    if not factors:
        return Int(coefficient)
    # A single bool counts as a number here, so the product converts it.
    if coefficient != 1 or (len(factors) == 1 and factors[0].kind is SymKind.BOOL):
        return MUL(Int(coefficient), *factors)
    return MUL(*factors) if len(factors) > 1 else factors[0]


def _fold_floats(op: Operator, args: list[Expr]) -> Expr:
    """Returns a float sum or product in the given order; leading constants are folded."""
    while len(args) > 1 and (lhs := _number(args[0])) is not None and (rhs := _number(args[1])) is not None:
        try:
            folded = lhs + rhs if op is ADD else lhs * rhs
        except OverflowError:
            break
        args[:2] = [as_expr(folded)]
    return args[0] if len(args) == 1 else op(*args)


def _number(e: Expr) -> int | float | None:
    return None if type(e) is Bool else e.constant


def _is_int(*args: Expr) -> bool:
    return all(arg.kind is SymKind.INT for arg in args)


def _divide_terms(e: Expr, divisor: int) -> tuple[Expr, Expr]:
    """Splits `e` into `divisor * quotient + rest`; the quotient has the terms without remainder."""
    terms = _terms_of((e,))
    quotient = {key: scale // divisor for key, scale in terms.items() if scale % divisor == 0}
    rest = {key: scale for key, scale in terms.items() if scale % divisor}
    return sum_of(quotient), sum_of(rest)


def _cancel(op: Operator, e: Expr, divisor: int) -> tuple[Expr, int]:
    """Divides `e` and `divisor > 0` by their common factor; the constant is rounded as `op` rounds."""
    terms = _terms_of((e,))
    constant = terms.pop((), 0)
    common = math.gcd(divisor, *terms.values())
    if common == 1:
        return e, divisor
    reduced = {key: scale // common for key, scale in terms.items()}
    reduced[()] = int(op.evaluate(constant, common))
    return sum_of(reduced), divisor // common


def floordiv(lhs: ExprLike, rhs: ExprLike) -> Expr:
    """Returns `lhs // rhs`, rounded toward minus infinity."""
    return _divided(FLOORDIV, as_expr(lhs), as_expr(rhs))


@lru_cache(maxsize=_CACHED)
def _divided(op: Operator, a: Expr, b: Expr) -> Expr:
    """Returns a quotient of ints, rounded as `op` (FLOORDIV or CEILDIV) rounds."""
    if type(b) is not Int or b.value == 0 or not _is_int(a):
        return op(a, b)
    divisor = b.value
    if type(a) is Int:
        return as_expr(op.evaluate(a.value, divisor))
    if divisor < 0:
        return a * -1 if divisor == -1 else op(a, b)
    whole, rest = _divide_terms(a, divisor)
    if type(rest) is Int:
        return add(whole, _divided(op, rest, b))
    reduced, smaller = _cancel(op, rest, divisor)
    if smaller != divisor:
        return add(whole, _divided(op, reduced, Int(smaller)))
    if (nested := _by_number(rest, op)) is not None:
        return add(whole, _divided(op, nested[0], Int(nested[1] * divisor)))
    return add(whole, op(rest, b))


def _by_number(e: Expr, op: Operator) -> tuple[Expr, int] | None:
    """Returns the operands of a division by a positive number; None for other nodes."""
    if e.op is not op:
        return None
    lhs, rhs = e.args
    return (lhs, rhs.value) if type(rhs) is Int and rhs.value > 0 else None


def ceildiv(lhs: ExprLike, rhs: ExprLike) -> Expr:
    """Returns `lhs / rhs`, rounded toward plus infinity."""
    return _divided(CEILDIV, as_expr(lhs), as_expr(rhs))


def mod(lhs: ExprLike, rhs: ExprLike) -> Expr:
    """Returns `lhs % rhs`, with the sign of `rhs`."""
    return _mod(as_expr(lhs), as_expr(rhs))


@lru_cache(maxsize=_CACHED)
def _mod(a: Expr, b: Expr) -> Expr:
    if type(b) is not Int or b.value == 0 or not _is_int(a):
        return MOD(a, b)
    rest = _divide_terms(a, b.value)[1]
    if type(rest) is Int:
        return Int(rest.value % b.value)
    if (nested := _by_number(rest, MOD)) is not None and nested[1] % b.value == 0:
        return mod(nested[0], b)
    return MOD(rest, b)


def min_(*operands: ExprLike) -> Expr:
    """Returns the least of at least one operand."""
    return _extremum(MIN, operands)


def max_(*operands: ExprLike) -> Expr:
    """Returns the greatest of at least one operand."""
    return _extremum(MAX, operands)


def _extremum(op: Operator, operands: tuple[ExprLike, ...]) -> Expr:
    args = [as_expr(operand) for operand in operands]
    if not args:
        raise ExpressionError("WIR401", f"{op.name} needs an operand")
    if len(args) == 1:
        return args[0]
    if not _is_int(*args):
        return op(*args)
    items = dict.fromkeys(item for arg in args for item in (arg.args if arg.op is op else (arg,)))
    constants = [item.value for item in items if type(item) is Int]
    ordered = sorted([item for item in items if type(item) is not Int], key=factor_key)
    if constants:
        ordered.append(Int(min(constants) if op is MIN else max(constants)))
    return ordered[0] if len(ordered) == 1 else op(*ordered)


def where(cond: ExprLike, lhs: ExprLike, rhs: ExprLike) -> Expr:
    """Returns `lhs` if `cond` else `rhs`."""
    c, a, b = as_expr(cond), as_expr(lhs), as_expr(rhs)
    if type(c) is Bool and a.kind is b.kind:
        return a if c.value else b
    return a if a == b else WHERE(c, a, b)


def truediv(lhs: ExprLike, rhs: ExprLike) -> Expr:
    """Returns the quotient as a float."""
    a, b = as_expr(lhs), as_expr(rhs)
    numerator, denominator = _number(a), _number(b)
    if numerator is not None and denominator:
        with suppress(OverflowError):
            return Float(numerator / denominator)
    return TRUEDIV(a, b)


def pow_(base: ExprLike, exp: ExprLike) -> Expr:
    """Returns the power; int powers require an exponent >= 0. Small powers become products."""
    a, b = as_expr(base), as_expr(exp)
    if a.kind is SymKind.INT and type(b) is Int:
        if b.value == 0:
            return Int(1)
        if b.value == 1:
            return a
        if type(a) is not Int and 1 < b.value <= _MAX_FACTORS:
            return mul(*[a] * b.value)
    lhs, rhs = a.constant, b.constant
    if type(lhs) is bool or type(rhs) is bool or lhs is None or rhs is None:
        return POW(a, b)
    if (type(lhs) is float and lhs > 0) or (type(lhs) is int and type(rhs) is int):
        with suppress(ExpressionError, OverflowError):
            return as_expr(power(lhs, rhs))
    return POW(a, b)


Expr.arithmetic = MappingProxyType({"add": add, "sub": sub, "mul": mul, "floordiv": floordiv, "mod": mod})
