"""Polynomial normal form: an int expression as a sum of coefficients times products of opaque factors.

Products of sums are multiplied out. `CeilDiv` and `Mod` become floor divisions. Multiples of a constant
divisor leave the floor division, so that equal sizes have equal forms. Every other node (floor divisions,
minima, powers, ...) is a factor over operands in normal form.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from wrapper_ir.expr import operators as ops
from wrapper_ir.expr.arithmetic import MAX_BITS
from wrapper_ir.expr.base import Apply, Expr, SymKind
from wrapper_ir.expr.build import sum_of
from wrapper_ir.expr.leaves import Bool, Int
from wrapper_ir.expr.operators import ADD, FLOORDIV, MAX, MIN, MUL
from wrapper_ir.expr.order import factor_key
from wrapper_ir.expr.rewrite import rebuild

Monomial = tuple[Expr, ...]
"""Sorted factors, repeated by their power; () is the constant."""

_MAX_TERMS = 256
_MAX_EXPONENT = 8
_MAX_DEGREE = 16
_MAX_BITS = MAX_BITS // 2  # sums add a few


@dataclass(frozen=True, slots=True)
class Poly:
    """Nonzero coefficients by monomial. Equal polynomials in the factors are equal objects."""

    terms: Mapping[Monomial, int]

    @property
    def constant(self) -> int:
        """Coefficient of the empty monomial."""
        return self.terms.get((), 0)

    def to_expr(self) -> Expr:
        """Returns the sum as an expression, terms in a fixed order, the constant last."""
        return sum_of(self.terms)


@lru_cache(maxsize=8192)
def expand(e: Expr) -> Poly:
    """Returns the normal form of an int or bool expression; a float expression is one factor."""
    match e:
        case Int(value) | Bool(value):
            return _poly({(): int(value)})
        case _ if e.kind is SymKind.FLOAT or not e.args:
            return _poly({(e,): 1})
        case Apply(ops.ADD, args):
            return add_polys(expand(arg) for arg in args)
        case Apply(ops.MUL, args):
            return _product([expand(arg) for arg in args])
        case Apply(ops.POW, (base, Int(exp))) if 0 <= exp <= _MAX_EXPONENT:
            return _product([expand(base)] * exp)
        case Apply(ops.FLOORDIV, (lhs, rhs)):
            return _floordiv(expand(lhs), expand(rhs))
        case Apply(ops.CEILDIV, (lhs, rhs)):
            return _ceildiv(expand(lhs), expand(rhs))
        case Apply(ops.MOD, (lhs, rhs)):
            a, b = expand(lhs), expand(rhs)
            return add_polys((a, scale_poly(_product([b, _floordiv(a, b)]), -1)))
        case _:
            return _factor(rebuild(e, tuple(map(_operand, e.args))))


def _operand(e: Expr) -> Expr:
    return e if e.kind is not SymKind.INT else expand(e).to_expr()


def _factor(e: Expr) -> Poly:
    """Returns the form of a node from a smart constructor: a factor, unless it became a sum or product."""
    if e.op is MIN or e.op is MAX:
        return _poly({(e.op(*sorted(e.args, key=factor_key)),): 1})
    if e.constant is not None or e.op is ADD or e.op is MUL:
        return expand(e)
    return _poly({(e,): 1})


def _poly(terms: Mapping[Monomial, int]) -> Poly:
    return Poly({monomial: scale for monomial, scale in terms.items() if scale})


def accumulate(total: dict[Monomial, int], more: Mapping[Monomial, int], by: int = 1) -> None:
    """Adds `by * more` to `total`."""
    for monomial, scale in more.items():
        total[monomial] = total.get(monomial, 0) + by * scale


def times(terms: Mapping[Monomial, int], factors: Monomial) -> dict[Monomial, int]:
    """Returns the product with these factors."""
    if not factors:
        return dict(terms)
    return {tuple(sorted((*monomial, *factors), key=factor_key)): scale for monomial, scale in terms.items()}


def product(a: Mapping[Monomial, int], b: Mapping[Monomial, int]) -> dict[Monomial, int]:
    """Returns the product, possibly with zero coefficients."""
    total: dict[Monomial, int] = {}
    for monomial, scale in a.items():
        accumulate(total, times(b, monomial), scale)
    return total


def add_polys(polys: Iterable[Poly]) -> Poly:
    """Returns the sum."""
    total: dict[Monomial, int] = {}
    for poly in polys:
        accumulate(total, poly.terms)
    return _poly(total)


def scale_poly(poly: Poly, scale: int) -> Poly:
    """Returns the product with a number."""
    return _poly({monomial: scale * own for monomial, own in poly.terms.items()})


def _product(polys: list[Poly]) -> Poly:
    """Multiplies out a product, unless it has too many terms.

    Otherwise sums stay factors, so that the size of the result grows with the number of factors, not
    exponentially.
    """
    sums: Monomial = ()
    if math.prod(max(1, len(poly.terms)) for poly in polys) > _MAX_TERMS:
        sums = tuple(poly.to_expr() for poly in polys if len(poly.terms) > 1)
        polys = [poly for poly in polys if len(poly.terms) <= 1]
    result = _poly({(): 1})
    for poly in polys:
        if _is_too_long(result, poly):
            factors = [p.to_expr() for p in (result, poly)]
            result = _poly({tuple(sorted(factors, key=factor_key)): 1})
            continue
        result = _poly(product(result.terms, poly.terms))
    return _poly(times(result.terms, sums))


def _is_too_long(a: Poly, b: Poly) -> bool:
    """Returns whether the product exceeds the limits of terms, factors per term, or coefficients."""
    bits = [max((scale.bit_length() for scale in poly.terms.values()), default=0) for poly in (a, b)]
    degrees = [max(map(len, poly.terms), default=0) for poly in (a, b)]
    return len(a.terms) * len(b.terms) > _MAX_TERMS or sum(bits) > _MAX_BITS or sum(degrees) > _MAX_DEGREE


def _constant_of(poly: Poly) -> int | None:
    return poly.constant if not poly.terms or (len(poly.terms) == 1 and () in poly.terms) else None


def _floordiv(a: Poly, b: Poly) -> Poly:
    divisor = _constant_of(b)
    if divisor is None or divisor == 0:
        return _poly({(FLOORDIV(a.to_expr(), b.to_expr()),): 1})
    if divisor < 0:
        a, divisor = scale_poly(a, -1), -divisor
    whole: dict[Monomial, int] = {}
    rest: dict[Monomial, int] = {}
    for monomial, scale in a.terms.items():
        # Coefficients round toward zero, which keeps signs and thus bounds. The constant rounds down into
        # [0, divisor), so that equal sizes have equal forms.
        quotient = scale // divisor if not monomial else int(math.copysign(abs(scale) // divisor, scale))
        whole[monomial] = quotient
        rest[monomial] = scale - quotient * divisor
    return add_polys((_poly(whole), _proper_quotient(_poly(rest), divisor)))


def _proper_quotient(rest: Poly, divisor: int) -> Poly:
    """Returns `rest // divisor` in lowest terms; `rest` contains no multiple of the divisor."""
    scales = [scale for monomial, scale in rest.terms.items() if monomial]
    if not scales:
        return _poly({})
    common = math.gcd(divisor, *scales)
    reduced = _poly({monomial: scale // common for monomial, scale in rest.terms.items()})
    divisor //= common
    if divisor == 1:
        return reduced
    numerator = reduced.to_expr()
    match numerator:
        case Apply(ops.FLOORDIV, (lhs, Int(inner))) if inner > 0:
            return _floordiv(expand(lhs), _poly({(): inner * divisor}))
    return _poly({(FLOORDIV(numerator, Int(divisor)),): 1})


def _ceildiv(a: Poly, b: Poly) -> Poly:
    divisor = _constant_of(b)
    if divisor is None or divisor == 0:
        return scale_poly(_floordiv(scale_poly(a, -1), b), -1)
    if divisor < 0:
        a, divisor = scale_poly(a, -1), -divisor
    return _floordiv(add_polys((a, _poly({(): divisor - 1}))), _poly({(): divisor}))
