"""Derives all numbers that change with a size: strides, counts and bytes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from wrapper_ir import ir
from wrapper_ir.expr import Expr, Int, as_int, substitute


def tensor_types(program: ir.Program) -> list[ir.TensorType]:
    """The types of all tensors of a program, each once."""
    values = [c.value for c in program.constants]
    for function in program.functions:
        values += ir.definitions(function)
    return list(dict.fromkeys(v.type for v in values if ir.is_tensor(v)))


def changed_numbers(
    program: ir.Program, old: int, new: int, with_multiples: bool
) -> Mapping[int, int] | None:
    """Maps each old number to its new one: sizes, and the strides, counts and bytes of all affected layouts.

    Returns None if one number would map to two.
    """
    numbers_map = {old: new}
    types = tensor_types(program)
    if with_multiples:
        sizes = {number_of(s) for t in types for s in t.sizes}
        numbers_map |= {n: n // old * new for n in sizes if n % old == 0 and n}
    while True:
        count = len(numbers_map)
        for before, after in _changes(types, numbers_map, _layout_numbers):
            if numbers_map.setdefault(before, after) != after:
                return None
        if len(numbers_map) > count:
            continue
        for before, after in _changes(types, numbers_map, _derived_numbers):
            numbers_map.setdefault(before, after)
        if len(numbers_map) == count:
            return numbers_map


def _changes(
    types: Sequence[ir.TensorType], numbers: Mapping[int, int], of: Callable[[ir.TensorType], list[int]]
) -> list[tuple[int, int]]:
    pairs = [pair for t in types for pair in zip(of(t), of(changed_type(t, numbers)), strict=True)]
    return [(before, after) for before, after in pairs if before != after]


def _layout_numbers(type: ir.TensorType) -> list[int]:
    """The numbers of a layout; 0 for symbolic ones."""
    exprs = (*type.sizes, *type.strides, ir.numel(type.sizes), ir.extent_bytes(type))
    return list(map(number_of, exprs))


def _derived_numbers(type: ir.TensorType) -> list[int]:
    """Numbers that may or may not derive from a layout: sizes of merged dimensions, steps in bytes."""
    sizes, strides = ([number_of(e) for e in part] for part in (type.sizes, type.strides))
    rank, item = range(len(sizes)), type.dtype.itemsize
    joined = [math.prod(sizes[i : j + 1]) for i in rank for j in rank if i < j]
    return [*joined, *(item * n for n in (*sizes, *strides, *joined))]


def changed_type(type: ir.TensorType, numbers: Mapping[int, int]) -> ir.TensorType:
    """Returns the type with other sizes. Strides of a permuted row-major layout stay row-major."""
    sizes = tuple(with_numbers(e, numbers) for e in type.sizes)
    order = sorted(range(len(sizes)), key=lambda d: -number_of(type.strides[d]))
    permuted = tuple(type.sizes[d] for d in order)
    if sizes and ir.is_contiguous(permuted, tuple(type.strides[d] for d in order)):
        dense = ir.contiguous_strides(tuple(sizes[d] for d in order))
        strides = tuple(dense[order.index(d)] for d in range(len(sizes)))
    else:
        strides = tuple(with_numbers(e, numbers) for e in type.strides)
    return replace(type, sizes=sizes, strides=strides)


def number_of(e: Expr) -> int:
    """The value of an integer literal; 0 for a symbolic expression."""
    return as_int(e) or 0


def with_numbers(e: Expr, numbers: Mapping[int, int]) -> Expr:
    """Returns the expression with integers replaced."""
    replacements: dict[str | Expr, Expr] = {i: Int(numbers[i.value]) for i in _ints(e) if i.value in numbers}
    return substitute(e, replacements, simplify=False)


def _ints(e: Expr) -> Iterator[Int]:
    if isinstance(e, Int):
        yield e
    for arg in e.args:
        yield from _ints(arg)
