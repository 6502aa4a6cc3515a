"""What numbers become when a size does: the strides, counts and bytes that follow from it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from wrapper_ir.expr import Expr, Int, substitute
from wrapper_ir.ir.layout import contiguous_strides, extent_bytes, is_contiguous, numel
from wrapper_ir.ir.program import Program
from wrapper_ir.ir.structure import definitions
from wrapper_ir.ir.types import TensorType


def tensor_types(program: Program) -> list[TensorType]:
    """The types of all tensors of a program, each once."""
    values = [c.value for c in program.constants]
    for function in program.functions:
        values += definitions(function)
    return list(dict.fromkeys(v.type for v in values if isinstance(v.type, TensorType)))


def changed_numbers(program: Program, old: int, new: int, with_multiples: bool) -> Mapping[int, int] | None:
    """What each number becomes: sizes, and the strides, counts and bytes of all layouts that have them. None where one number
    would become two."""
    found = {old: new}
    types = tensor_types(program)
    if with_multiples:
        sizes = {s.value for t in types for s in t.sizes if isinstance(s, Int)}
        found |= {n: n // old * new for n in sizes if n % old == 0 and n}
    while True:
        count = len(found)
        for before, after in _changes(types, found, _layout_numbers):
            if found.setdefault(before, after) != after:
                return None
        if len(found) > count:
            continue
        for before, after in _changes(types, found, _derived_numbers):
            found.setdefault(before, after)
        if len(found) == count:
            return found


def _changes(
    types: Sequence[TensorType], numbers: Mapping[int, int], of: Callable[[TensorType], list[int]]
) -> list[tuple[int, int]]:
    pairs = [pair for t in types for pair in zip(of(t), of(changed_type(t, numbers)), strict=True)]
    return [(before, after) for before, after in pairs if before != after]


def _layout_numbers(type: TensorType) -> list[int]:
    """The numbers of a layout; of symbolic ones, 0."""
    exprs = (*type.sizes, *type.strides, numel(type.sizes), extent_bytes(type))
    return list(map(number_of, exprs))


def _derived_numbers(type: TensorType) -> list[int]:
    """Numbers that may follow from a layout, or be there for another reason: sizes of dimensions that are one, steps in bytes."""
    sizes, strides = ([number_of(e) for e in part] for part in (type.sizes, type.strides))
    rank, item = range(len(sizes)), type.dtype.itemsize
    joined = [math.prod(sizes[i : j + 1]) for i in rank for j in rank if i < j]
    return [*joined, *(item * n for n in (*sizes, *strides, *joined))]


def changed_type(type: TensorType, numbers: Mapping[int, int]) -> TensorType:
    """The type with other sizes. Strides stay row-major, or those of a permutation, where they were."""
    sizes = tuple(with_numbers(e, numbers) for e in type.sizes)
    order = sorted(range(len(sizes)), key=lambda d: -number_of(type.strides[d]))
    permuted = tuple(type.sizes[d] for d in order)
    if sizes and is_contiguous(permuted, tuple(type.strides[d] for d in order)):
        dense = contiguous_strides(tuple(sizes[d] for d in order))
        strides = tuple(dense[order.index(d)] for d in range(len(sizes)))
    else:
        strides = tuple(with_numbers(e, numbers) for e in type.strides)
    return replace(type, sizes=sizes, strides=strides)


def number_of(e: Expr) -> int:
    """The number; 0 for what is symbolic."""
    return e.value if isinstance(e, Int) else 0


def with_numbers(e: Expr, numbers: Mapping[int, int]) -> Expr:
    """The expression with other numbers in it."""
    found: dict[str | Expr, Expr] = {i: Int(numbers[i.value]) for i in _ints(e) if i.value in numbers}
    return substitute(e, found, simplify=False)


def _ints(e: Expr) -> Iterator[Int]:
    if isinstance(e, Int):
        yield e
    for arg in e.args:
        yield from _ints(arg)
