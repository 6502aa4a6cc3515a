"""One call of an operator, with numbers for its sizes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cached_property

from wrapper_ir import ir
from wrapper_ir.analysis.sizes import Sizes
from wrapper_ir.expr import Bool, Expr


@dataclass(frozen=True, slots=True)
class Operand:
    """A tensor on the CPU."""

    dtype: ir.DType
    sizes: tuple[int, ...]
    strides: tuple[int, ...]

    @property
    def bytes(self) -> int:
        """Bytes of its elements."""
        return self.dtype.itemsize * math.prod(self.sizes)

    def is_dense(self, order: Sequence[int]) -> bool:
        """Whether it is dense, dimensions from the innermost to the outermost; those of one element have any stride."""
        expected = 1
        for dim in order:
            if self.sizes[dim] != 1 and self.strides[dim] != expected:
                return False
            expected *= self.sizes[dim]
        return True


@dataclass(frozen=True)
class OperatorCall:
    """A call of an operator with these names of arguments. `taken` are the indices of its results that the program names, where
    it has several."""

    op: ir.CallExtern
    sizes: Sizes
    taken: Set[int | str]
    names: tuple[str, ...]

    @cached_property
    def given(self) -> Mapping[str, object]:
        """The arguments by name."""
        return dict(zip(self.names, self.op.args, strict=False)) | dict(self.op.kwargs)

    def tensor(self, name: str) -> Operand | None:
        """An argument; None where it is no tensor on the CPU."""
        return self.operand(self.given.get(name))

    @property
    def made(self) -> Operand | None:
        """The one tensor that the operator makes or writes."""
        return self.operand(self.op.result) or self.tensor("out")

    def operand(self, value: object) -> Operand | None:
        """A tensor on the CPU; None for other values."""
        type = value.type if isinstance(value, ir.Value) else None
        if not isinstance(type, ir.TensorType) or type.device != ir.CPU:
            return None
        number = self.sizes.number
        return Operand(type.dtype, tuple(map(number, type.sizes)), tuple(map(number, type.strides)))

    def numbers(self, name: str) -> tuple[int, ...] | None:
        """An argument that is a list of whole numbers."""
        argument = self.given.get(name)
        if not isinstance(argument, Sequence) or not all(isinstance(e, Expr) for e in argument):
            return None
        return tuple(self.sizes.number(e) for e in argument)

    def number(self, name: str, default: int) -> int:
        """An argument that is one whole number."""
        argument = self.given.get(name)
        return self.sizes.number(argument) if isinstance(argument, Expr) else default

    def is_set(self, name: str) -> bool:
        """Whether an argument is the constant true."""
        return self.given.get(name) == Bool(True)

    def left(self, results: Sequence[int]) -> int:
        """Bytes of those of these results that nothing takes: they are given back with the value that has them."""
        return sum(size for index, size in enumerate(results) if index not in self.taken)


def round_up(number: int, unit: int) -> int:
    """The next multiple."""
    return -(-number // unit) * unit
