"""Sizes that are numbers, made smaller throughout a program.

A candidate replaces a size everywhere, with the strides, counts and bytes that follow from it. Whether it is right is for the
verifier to say, and for the check that is to fail. No candidate changes what a kernel has in its source.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from wrapper_ir.artifact import Artifact, TensorData
from wrapper_ir.atoms import map_expr_values
from wrapper_ir.debugger.minify.kernel_sizes import kernels_with_sizes
from wrapper_ir.debugger.minify.stubs import rebuilt
from wrapper_ir.expr import Expr, Int, substitute
from wrapper_ir.layout import contiguous_strides, extent_bytes, is_contiguous, numel
from wrapper_ir.program import Constant, Program
from wrapper_ir.structure import definitions, map_function
from wrapper_ir.types import StorageType, TensorType, Type
from wrapper_ir.values import Value

__all__ = ["Resizing", "number_sizes", "smaller_sizes"]

_SMALLEST = 2


def number_sizes(programs: Sequence[Artifact]) -> list[int]:
    """The sizes of tensors that are numbers and could be smaller, from the largest one on."""
    found = {
        size.value
        for artifact in programs
        for type in _tensor_types(artifact.program)
        for size in type.sizes
        if isinstance(size, Int)
    }
    return sorted((n for n in found if n > _SMALLEST), reverse=True)


def smaller_sizes(size: int) -> list[int]:
    """What to try in place of a size, the smallest first."""
    tried = {_SMALLEST, _SMALLEST + 1, size // 8, size // 4, size // 2}
    return sorted(n for n in tried if _SMALLEST <= n < size)


def _tensor_types(program: Program) -> list[TensorType]:
    values = [c.value for c in program.constants]
    for function in program.functions:
        values += definitions(function)
    return list(dict.fromkeys(v.type for v in values if isinstance(v.type, TensorType)))


class Resizing:
    """Makes candidates, and notes the kernels that forbid some."""

    def __init__(self) -> None:
        self._kernels: dict[str, None] = {}

    def candidates(self, programs: Sequence[Artifact], old: int, new: int) -> Iterator[tuple[Artifact, ...]]:
        """The programs with `new` in place of the size `old`: multiples of it stay, or change with it."""
        for with_multiples in (False, True):
            made = [self._resized(artifact, old, new, with_multiples) for artifact in programs]
            found = tuple(artifact for artifact in made if artifact is not None)
            if len(found) == len(programs):
                yield found

    def notes(self, programs: Sequence[Artifact]) -> list[str]:
        """A line about the kernels because of which sizes stayed."""
        launched = {k.name for artifact in programs for k in artifact.program.kernels}
        names = [f"@{name}" for name in self._kernels if name in launched]
        return (
            [f"sizes that are numbers stay where {', '.join(names)} may have them in the source"]
            if names
            else []
        )

    def _resized(self, artifact: Artifact, old: int, new: int, with_multiples: bool) -> Artifact | None:
        numbers = _numbers(artifact.program, old, new, with_multiples)
        if numbers is None:
            return None
        fixed = kernels_with_sizes(artifact.program, numbers)
        self._kernels |= dict.fromkeys(fixed)
        return None if fixed else _rewritten(artifact, numbers)


def _numbers(program: Program, old: int, new: int, with_multiples: bool) -> Mapping[int, int] | None:
    """What each number becomes: sizes, and the strides, counts and bytes of all layouts that have them. None where one number
    would become two."""
    found = {old: new}
    types = _tensor_types(program)
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
    pairs = [pair for t in types for pair in zip(of(t), of(_resized_type(t, numbers)), strict=True)]
    return [(before, after) for before, after in pairs if before != after]


def _layout_numbers(type: TensorType) -> list[int]:
    """The numbers of a layout; of symbolic ones, 0."""
    exprs = (*type.sizes, *type.strides, numel(type.sizes), extent_bytes(type))
    return list(map(_value, exprs))


def _derived_numbers(type: TensorType) -> list[int]:
    """Numbers that may follow from a layout, or be there for another reason: sizes of dimensions that are one, steps in bytes."""
    sizes, strides, item = list(map(_value, type.sizes)), list(map(_value, type.strides)), type.dtype.itemsize
    rank = range(len(sizes))
    joined = [math.prod(sizes[i : j + 1]) for i in rank for j in rank if i < j]
    return [*joined, *(item * n for n in (*sizes, *strides, *joined))]


def _resized_type(type: TensorType, numbers: Mapping[int, int]) -> TensorType:
    """The type with other sizes. Strides stay row-major, or those of a permutation, where they were."""
    sizes = tuple(_number(e, numbers) for e in type.sizes)
    order = sorted(range(len(sizes)), key=lambda d: -_value(type.strides[d]))
    permuted = tuple(type.sizes[d] for d in order)
    if sizes and is_contiguous(permuted, tuple(type.strides[d] for d in order)):
        dense = contiguous_strides(tuple(sizes[d] for d in order))
        strides = tuple(dense[order.index(d)] for d in range(len(sizes)))
    else:
        strides = tuple(_number(e, numbers) for e in type.strides)
    return replace(type, sizes=sizes, strides=strides)


def _value(e: Expr) -> int:
    return e.value if isinstance(e, Int) else 0


def _number(e: Expr, numbers: Mapping[int, int]) -> Expr:
    """The expression with other numbers in it."""
    found: dict[str | Expr, Expr] = {i: Int(numbers[i.value]) for i in _ints(e) if i.value in numbers}
    return substitute(e, found, simplify=False)


def _ints(e: Expr) -> Iterator[Int]:
    if isinstance(e, Int):
        yield e
    for arg in e.args:
        yield from _ints(arg)


# --- the program with them


@dataclass
class _Rewriter:
    numbers: Mapping[int, int]
    values: dict[Value, Value] = field(default_factory=dict)

    def value(self, value: Value) -> Value:
        found = self.values.get(value)
        if found is None:
            found = self.values[value] = Value(value.name, self.type(value.type))
        return found

    def type(self, type: Type) -> Type:
        match type:
            case TensorType():
                return _resized_type(type, self.numbers)
            case StorageType():
                return replace(type, nbytes=_number(type.nbytes, self.numbers))
            case _:
                return type

    def expr(self, e: Expr) -> Expr:
        return map_expr_values(_number(e, self.numbers), self.value)


def _rewritten(artifact: Artifact, numbers: Mapping[int, int]) -> Artifact | None:
    rewriter, program = _Rewriter(numbers), artifact.program
    constants: list[Constant] = []
    data: dict[str, TensorData] = {}
    for constant in program.constants:
        value = rewriter.value(constant.value)
        held = artifact.data_of(constant)
        changed = value != constant.value
        if changed and (constant.storage or held is None):
            return None  # bytes of several constants, or of none
        if changed and held is not None:
            assert isinstance(value.type, TensorType)
            assert isinstance(constant.value.type, TensorType)
            cut = _corner(held, constant.value.type, value.type)
            if cut is None:
                return None
            data[value.name] = cut
            constant = replace(constant, data_hash=cut.sha256() if constant.data_hash else "")
        constants.append(replace(constant, value=value))
    functions = tuple(map_function(f, rewriter.value, rewriter.expr) for f in program.functions)
    return rebuilt(artifact, replace(program, constants=tuple(constants), functions=functions), data)


def _corner(data: TensorData, old: TensorType, new: TensorType) -> TensorData | None:
    """The first elements in each dimension; None for layouts that are symbolic, or larger than the data."""
    layouts = [(*map(_value, t.sizes), *map(_value, t.strides)) for t in (old, new)]
    if any(not isinstance(e, Int) for t in (old, new) for e in (*t.sizes, *t.strides)):
        return None
    if any(b > a for a, b in zip(layouts[0], layouts[1][: len(new.sizes)])):
        return None
    item, rank = old.dtype.itemsize, len(new.sizes)
    source = data.buffer.cast("B")
    out = bytearray(_value(extent_bytes(new)))
    places = [(0, 0)]
    for dim in range(rank):
        steps = [layout[rank + dim] * item for layout in layouts]
        places = [(a + i * steps[0], b + i * steps[1]) for a, b in places for i in range(layouts[1][dim])]
    for a, b in places:
        out[b : b + item] = source[a : a + item]
    return TensorData(data.dtype, memoryview(bytes(out)))
