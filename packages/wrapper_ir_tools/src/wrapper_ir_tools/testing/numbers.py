"""Random expressions whose evaluation never fails and stays within 64 bits."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

from wrapper_ir.expr import Bool, Expr, Float, Int
from wrapper_ir.expr import operators as ops

_DEPTH = 3
_SAFE_MATH = tuple(ops.OPERATORS.by_name[name] for name in ("sin", "cos", "tanh", "atan", "asinh", "abs"))


def random_int(rng: random.Random, symbols: Sequence[Expr], depth: int = _DEPTH) -> Expr:
    """An integer expression over `symbols` (ints up to some thousands), not simplified."""
    if depth == 0 or rng.random() < 0.2:
        return rng.choice(symbols) if symbols and rng.random() < 0.7 else Int(rng.randrange(-9, 99))

    def sub() -> Expr:
        return random_int(rng, symbols, depth - 1)

    positive = Int(rng.randrange(1, 9))
    match rng.randrange(10):
        case 0:
            return ops.ADD(*(sub(), sub(), sub())[: rng.randrange(2, 4)])
        case 1:
            return ops.MUL(sub(), sub())
        case 2:
            return ops.FLOORDIV(sub(), positive)
        case 3:
            return ops.CEILDIV(sub(), positive)
        case 4:
            return ops.MOD(sub(), positive)
        case 5:
            return ops.MIN(sub(), sub())
        case 6:
            return ops.MAX(sub(), positive)
        case 7:
            return ops.WHERE(random_bool(rng, symbols, depth - 1), sub(), sub())
        case 8:
            return rng.choice((ops.BIT_AND, ops.BIT_OR, ops.BIT_XOR))(sub(), sub())
        case _:
            return (
                ops.POW(ops.MIN(sub(), Int(9)), Int(rng.randrange(2)))
                if depth == 1
                else ops.MUL(Int(-1), sub())
            )


def random_float(rng: random.Random, symbols: Sequence[Expr]) -> Expr:
    """A random float expression."""
    x = ops.TO_FLOAT(random_int(rng, symbols, 1))
    match rng.randrange(5):
        case 0:
            return Float(rng.choice((0.0, -0.0, 1.5, 1e-30, 1e22, -2.75, math.inf, -math.inf, math.nan)))
        case 1:
            return rng.choice(_SAFE_MATH)(x)
        case 2:
            return ops.SQRT(ops.ABS(x))
        case 3:
            return ops.TRUEDIV(x, Int(rng.randrange(1, 9)))
        case _:
            return ops.ADD(x, Float(0.25), ops.MUL(Float(-0.5), x))


def random_bool(rng: random.Random, symbols: Sequence[Expr], depth: int = 1) -> Expr:
    """A random boolean expression."""
    if depth == 0:
        return Bool(rng.random() < 0.5)

    def compare() -> Expr:
        op = rng.choice(ops.COMPARISONS)
        return op(random_int(rng, symbols, depth - 1), random_int(rng, symbols, depth - 1))

    match rng.randrange(4):
        case 0:
            return ops.AND(compare(), compare())
        case 1:
            return ops.OR(compare(), compare())
        case 2:
            return ops.NOT(compare())
        case _:
            return compare()
