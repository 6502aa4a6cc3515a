"""Arithmetic on layouts: strides, element counts, extents. All in elements unless a name says bytes."""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd

from wrapper_ir.expr import Expr, Int, add, expand, floordiv, mul, sub
from wrapper_ir.expr.operators import MUL
from wrapper_ir.ir.types import StorageType, TensorType, Type

_ZERO = Int(0)
_ONE = Int(1)


def numel(sizes: Sequence[Expr]) -> Expr:
    """Product of the sizes."""
    return mul(*sizes) if sizes else _ONE


def may_have_item(type: TensorType) -> bool:
    """Returns whether a tensor of this type can have exactly one element; symbolic sizes count as 1."""
    return numel(type.sizes).integer in (None, 1)


def contiguous_strides(sizes: Sequence[Expr]) -> tuple[Expr, ...]:
    """Row-major strides. A dimension of constant size 0 counts as 1, as in PyTorch."""
    strides: list[Expr] = []
    running: Expr = _ONE
    for size in reversed(sizes):
        strides.append(running)
        if size != _ZERO:
            running = mul(running, size)
    return tuple(reversed(strides))


def is_contiguous(sizes: Sequence[Expr], strides: Sequence[Expr]) -> bool:
    """Returns whether the strides are exactly `contiguous_strides(sizes)`."""
    return tuple(strides) == contiguous_strides(sizes)


def extent_elements(sizes: Sequence[Expr], strides: Sequence[Expr]) -> Expr:
    """1 + the largest element offset that the layout reaches; 0 where a size is constant 0.

    A symbolic size is assumed to be at least 1. If it is 0 at run time, the result is still exact for dense
    layouts (row-major ones and their permutations: the number of elements), but too large for padded strides.
    """
    if _ZERO in sizes:
        return _ZERO
    if is_contiguous(sizes, strides):
        return numel(sizes)
    reach = [mul(sub(size, _ONE), stride) for size, stride in zip(sizes, strides, strict=True)]
    return add(_ONE, *reach) if reach else _ONE


def extent_bytes(type: TensorType) -> Expr:
    """Bytes from the start of the first element to the end of the last one of a tensor of this type."""
    return mul(extent_elements(type.sizes, type.strides), Int(type.dtype.itemsize))


def type_symbols(type: Type) -> frozenset[str]:
    """Names of the symbols in the sizes and strides of a tensor, or in the bytes of a storage."""
    match type:
        case TensorType(sizes=sizes, strides=strides):
            return frozenset[str]().union(*(e.free_symbols for e in (*sizes, *strides)))
        case StorageType(nbytes=nbytes):
            return nbytes.free_symbols
        case _:
            return frozenset()


def is_layout_extent(extent: Expr, type: TensorType) -> bool:
    """Returns whether `extent` is the byte extent of the type's layout, and therefore 0 if a size is 0."""
    return extent == extent_bytes(type)


def remainder(e: Expr) -> tuple[int, int]:
    """(modulus, rest) such that `e` is `rest` plus a multiple of `modulus` for all values of its symbols. A
    constant has modulus 0."""
    if e.integer is not None:
        return 0, e.integer
    poly = expand(e)
    return gcd(*(scale for monomial, scale in poly.terms.items() if monomial)), poly.constant


def slot_alignment(pool: StorageType, offset: Expr) -> int:
    """The alignment in bytes of a slot, derived from its pool and its offset in bytes."""
    return gcd(pool.alignment, *remainder(offset))


def exact_quotient(e: Expr, by: int) -> Expr | None:
    """`e / by` if `by` provably divides it (bytes to elements); otherwise None."""
    if by == 1:
        return e
    if e.integer is not None:
        return Int(e.integer // by) if e.integer % by == 0 else None
    if e.op is MUL and any(f.integer is not None and f.integer % by == 0 for f in e.args):
        return floordiv(e, Int(by))
    return None
