"""Numbers that programs get wrong: signs, zeros, the ends of 64 bits, and symbols with wrong ranges."""

from __future__ import annotations

import random
from collections.abc import Sequence

from wrapper_ir.expr import Expr, Int, add, as_expr, ceildiv, floordiv, max_, min_, mod, mul, neg, sub
from wrapper_ir.expr import operators as ops

EDGES = (
    -1, 0, 1, 2, 3, 5, 7, 17, 63, 64, 65, 4096, 1 << 20, (1 << 31) - 1, 1 << 31, 1 << 32, (1 << 61) - 1, 1 << 61,
    (1 << 62) + 1, (1 << 63) - 1, 1 << 63, (1 << 64) - 1, 1 << 64, 1 << 200, -7, -(1 << 31), -(1 << 62), -(1 << 63),
)  # fmt: skip


def hostile_expr(rng: random.Random, symbols: Sequence[Expr]) -> Expr:
    """A number at an edge, or an expression that may be anything at run time."""
    edge = Int(rng.choice(EDGES))
    if not symbols or rng.random() < 0.4:
        return edge
    s, t = rng.choice(symbols), rng.choice(symbols)
    small = Int(rng.choice((1, 2, 3, 5, 8)))
    match rng.randrange(14):
        case 0:
            return sub(s, small)
        case 1:
            return mul(s, edge)
        case 2:
            return mul(s, t)
        case 3:
            return mul(mul(s, t), mul(s, Int(rng.choice((1 << 20, 1 << 40, 1 << 60)))))
        case 4:
            return floordiv(s, sub(t, small))
        case 5:
            return mod(small, sub(t, small))
        case 6:
            return neg(s)
        case 7:
            return add(s, edge)
        case 8:
            return max_(s, edge)
        case 9:
            return min_(s, edge)
        case 10:
            return ceildiv(s, small)
        case 11:
            return sub(s, t)
        case 12:
            return ops.POW(small, s)
        case _:
            return sub(mul(s, small), t)


def near(rng: random.Random, e: Expr | int) -> Expr:
    """A little more or less than right."""
    right = as_expr(e)
    return rng.choice(
        (add(right, 1), sub(right, 1), mul(right, 2), add(right, 16), neg(right), floordiv(right, 2), Int(0))
    )
