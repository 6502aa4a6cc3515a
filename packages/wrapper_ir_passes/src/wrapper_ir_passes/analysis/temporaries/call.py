"""One call of an operator, with its sizes as numbers."""

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
        """Returns whether it is dense, with dimensions in `order` from the innermost; a dimension of size 1
        may have any stride."""
        expected = 1
        for dim in order:
            if self.sizes[dim] != 1 and self.strides[dim] != expected:
                return False
            expected *= self.sizes[dim]
        return True


@dataclass(frozen=True)
class OperatorCall:
    """A call of an operator whose arguments have these names. `uses` are the indices of its results that the
    program unpacks, if it has several."""

    op: ir.CallExtern
    sizes: Sizes
    uses: Set[int | str]
    names: tuple[str, ...]

    @cached_property
    def args(self) -> Mapping[str, object]:
        """The arguments by name."""
        return dict(zip(self.names, self.op.args, strict=False)) | dict(self.op.kwargs)

    def tensor(self, name: str) -> Operand | None:
        """An argument; None if it is not a tensor on the CPU."""
        return self.operand(self.args.get(name))

    @property
    def result(self) -> Operand | None:
        """The tensor that the operator returns or writes."""
        return self.operand(self.op.result) or self.tensor("out")

    def operand(self, value: object) -> Operand | None:
        """A tensor on the CPU; None for other values."""
        if not ir.is_tensor(value) or value.type.device != ir.CPU:
            return None
        type, number = value.type, self.sizes.number
        return Operand(type.dtype, tuple(map(number, type.sizes)), tuple(map(number, type.strides)))

    def numbers(self, name: str) -> tuple[int, ...] | None:
        """An argument that is a list of ints."""
        argument = self.args.get(name)
        if not isinstance(argument, tuple) or not all(isinstance(e, Expr) for e in argument):
            return None
        return tuple(map(self.sizes.number, argument))

    def number(self, name: str, default: int) -> int:
        """An argument that is an int."""
        argument = self.args.get(name)
        return self.sizes.number(argument) if isinstance(argument, Expr) else default

    def is_set(self, name: str) -> bool:
        """Returns whether an argument is the constant true."""
        return self.args.get(name) == Bool(True)

    def unused(self, results: Sequence[int]) -> int:
        """Bytes of the results that are not unpacked; they are freed with the nested result."""
        return sum(size for index, size in enumerate(results) if index not in self.uses)


def round_up(number: int, unit: int) -> int:
    """The least multiple of `unit` that is at least `number`."""
    return -(-number // unit) * unit
