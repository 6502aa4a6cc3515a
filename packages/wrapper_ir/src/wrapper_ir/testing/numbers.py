"""Random expressions whose evaluation never fails and stays within 64 bits."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

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
    MathFn,
    MathOp,
    Max,
    Min,
    Mod,
    Mul,
    Not,
    Or,
    Pow,
    TrueDiv,
    Where,
)

__all__ = ["random_bool", "random_float", "random_int"]

_DEPTH = 3
_SAFE_MATH = (MathOp.SIN, MathOp.COS, MathOp.TANH, MathOp.ATAN, MathOp.ASINH, MathOp.ABS)


def random_int(rng: random.Random, symbols: Sequence[Expr], depth: int = _DEPTH) -> Expr:
    """An integer expression over `symbols` (ints up to some thousands), built without simplification."""
    if depth == 0 or rng.random() < 0.2:
        return rng.choice(symbols) if symbols and rng.random() < 0.7 else Int(rng.randrange(-9, 99))

    def sub() -> Expr:
        return random_int(rng, symbols, depth - 1)

    positive = Int(rng.randrange(1, 9))
    match rng.randrange(10):
        case 0:
            return Add((sub(), sub(), sub())[: rng.randrange(2, 4)])
        case 1:
            return Mul((sub(), sub()))
        case 2:
            return FloorDiv(sub(), positive)
        case 3:
            return CeilDiv(sub(), positive)
        case 4:
            return Mod(sub(), positive)
        case 5:
            return Min((sub(), sub()))
        case 6:
            return Max((sub(), positive))
        case 7:
            return Where(random_bool(rng, symbols, depth - 1), sub(), sub())
        case 8:
            return MathFn(rng.choice((MathOp.BIT_AND, MathOp.BIT_OR, MathOp.BIT_XOR)), (sub(), sub()))
        case _:
            return Pow(Min((sub(), Int(9))), Int(rng.randrange(2))) if depth == 1 else Mul((Int(-1), sub()))


def random_float(rng: random.Random, symbols: Sequence[Expr]) -> Expr:
    """A float expression."""
    x = Convert(ConvertOp.TO_FLOAT, random_int(rng, symbols, 1))
    match rng.randrange(5):
        case 0:
            return Float(rng.choice((0.0, -0.0, 1.5, 1e-30, 1e22, -2.75, math.inf, -math.inf, math.nan)))
        case 1:
            return MathFn(rng.choice(_SAFE_MATH), (x,))
        case 2:
            return MathFn(MathOp.SQRT, (MathFn(MathOp.ABS, (x,)),))
        case 3:
            return TrueDiv(x, Int(rng.randrange(1, 9)))
        case _:
            return Add((x, Float(0.25), Mul((Float(-0.5), x))))


def random_bool(rng: random.Random, symbols: Sequence[Expr], depth: int = 1) -> Expr:
    """A truth value."""
    if depth == 0:
        return Bool(rng.random() < 0.5)

    def compare() -> Expr:
        op = rng.choice(tuple(CmpOp))
        return Cmp(op, random_int(rng, symbols, depth - 1), random_int(rng, symbols, depth - 1))

    match rng.randrange(4):
        case 0:
            return And((compare(), compare()))
        case 1:
            return Or((compare(), compare()))
        case 2:
            return Not(compare())
        case _:
            return compare()
