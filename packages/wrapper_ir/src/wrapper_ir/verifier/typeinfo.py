"""Computes facts about a type once per type object: its symbols, its extent, its problems."""

from __future__ import annotations

from typing import NamedTuple

from wrapper_ir import ir
from wrapper_ir.expr import Expr, Int, SymKind
from wrapper_ir.expr.arithmetic import fits_int64, shown
from wrapper_ir.verifier.obligations import Size, as_size


class TypeInfo(NamedTuple):
    """Facts about one type.

    `extent` is in bytes: the size of a storage, or the span of a tensor from its first element; 0 for other
    types. `exprs` are the expressions that are not constants. `problems` are (code, message).
    """

    extent: Size
    exprs: tuple[Expr, ...] = ()
    problems: tuple[tuple[str, str], ...] = ()


_NOTHING = TypeInfo(0)
_FAR_BELOW = 2**62


class TypeTable:
    """Facts by the id of a type. The table keeps the types alive, so that their ids stay valid."""

    def __init__(self) -> None:
        self._entries: dict[int, tuple[ir.Type, TypeInfo]] = {}
        self._symbolic: dict[tuple[object, ...], TypeInfo] = {}
        """Facts about symbolic tensors, which are expensive to compute, by the data that they depend on."""

    def __call__(self, type: ir.Type) -> TypeInfo:
        entry = self._entries.get(id(type))
        if entry is None:
            entry = self._entries[id(type)] = (type, self._inspect(type))
        return entry[1]

    def _inspect(self, type: ir.Type) -> TypeInfo:
        match type:
            case ir.TensorType():
                return self._tensor(type)
            case ir.StorageType():
                return _inspect_storage(type)
            case _:
                return _NOTHING

    def _tensor(self, type: ir.TensorType) -> TypeInfo:
        info = _inspect_numbers(type)
        if info is None:
            # equal expressions are one object, which `_entries` keeps alive, and are slow to hash
            key = (type.dtype.itemsize, *map(id, type.sizes), 0, *map(id, type.strides))
            info = self._symbolic.get(key)
            if info is None:
                info = self._symbolic[key] = _inspect_symbolic(type)
        return info


def _inspect_storage(type: ir.StorageType) -> TypeInfo:
    nbytes, alignment = type.nbytes, type.alignment
    if alignment < 1 or alignment & (alignment - 1):
        return TypeInfo(0, (), (("WIR044", f"{alignment} is not an alignment"),))
    count = nbytes.integer
    if count is not None:
        if count < 0:
            return TypeInfo(0, (), (("WIR043", f"a storage of {count} bytes"),))
        return TypeInfo(count, (), _too_large(count))
    problems = () if nbytes.kind is SymKind.INT else (("WIR034", "a storage's size is not an int"),)
    return TypeInfo(nbytes, (nbytes,), problems)


def _too_large(*counts: int) -> tuple[tuple[str, str], ...]:
    """A problem if a number of bytes or elements is not an int64."""
    most = max(counts)  # none is negative
    return () if fits_int64(most) else (("WIR015", f"{shown(most)} is not an int64"),)


def _inspect_numbers(type: ir.TensorType) -> TypeInfo | None:
    """The facts about a tensor whose sizes and strides are nonnegative constants; None for other tensors."""
    sizes, strides = type.sizes, type.strides
    if len(sizes) != len(strides):
        return None
    itemsize = type.dtype.itemsize
    reach, count, largest = itemsize, 1, 0
    for size, stride in zip(sizes, strides):
        if size.__class__ is not Int or stride.__class__ is not Int:
            return None
        n, step = size.value, stride.value
        if n < 0 or step < 0:
            return None
        count *= n
        reach += (n - 1) * step * itemsize
        largest = max(largest, n, step)
    if not count:
        return TypeInfo(0, (), _too_large(largest))
    if reach < _FAR_BELOW and count < _FAR_BELOW and largest < _FAR_BELOW:  # the common case
        return TypeInfo(reach)
    return TypeInfo(reach, (), _too_large(reach, count, largest))


def _inspect_symbolic(type: ir.TensorType) -> TypeInfo:
    exprs = tuple(dict.fromkeys(e for e in (*type.sizes, *type.strides) if e.integer is None))
    if len(type.sizes) != len(type.strides):
        problem = ("WIR040", f"{len(type.sizes)} sizes, but {len(type.strides)} strides")
        return TypeInfo(0, exprs, (problem,))
    problems = []
    for code, what, numbers in (("WIR041", "size", type.sizes), ("WIR042", "stride", type.strides)):
        for e in numbers:
            match e:
                case Int(value) if value < 0:
                    problems.append((code, f"{what} {value} is negative"))
                case Int(value):
                    problems += _too_large(value)
                case _ if e.kind is not SymKind.INT:
                    problems.append(("WIR034", f"a {what} is not an int"))
                case _:
                    pass
    if problems:
        return TypeInfo(0, exprs, tuple(problems))
    return TypeInfo(as_size(ir.extent_bytes(type)), exprs)
