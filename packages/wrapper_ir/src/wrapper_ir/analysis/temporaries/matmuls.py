"""Temporaries of matmuls: copies of what BLAS does not take as it stands."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from wrapper_ir import ir
from wrapper_ir.analysis.temporaries.call import Operand, OperatorCall

_HALF = (ir.DType.F16, ir.DType.BF16)
"""Their matmuls are oneDNN's on some CPUs, whose scratch depends on the CPU."""
_FEW = 400
"""Matmuls of fewer multiplications in each matrix are made in a loop."""


def _matmul(first: str, second: str) -> Callable[[OperatorCall], int | None]:
    def rule(call: OperatorCall) -> int | None:
        matrices = call.tensor(first), call.tensor(second), call.made
        if any(m is None or m.dtype in _HALF or m.dtype.itemsize < ir.DType.F32.itemsize for m in matrices):
            return None
        known = [m for m in matrices if m is not None]
        if any(0 in m.sizes for m in known) or _is_small(known):
            return 0
        return sum(map(_copied, known))

    return rule


def _is_small(matrices: list[Operand]) -> bool:
    """Whether torch multiplies batches of matrices in a loop."""
    left, _, made = matrices
    return len(made.sizes) == 3 and math.prod(made.sizes[1:]) * left.sizes[2] < _FEW


def _copied(matrix: Operand) -> int:
    """Bytes of a copy of one matrix of a batch, if neither its rows nor its columns are next to each other."""
    (rows, columns), (row, column) = matrix.sizes[-2:], matrix.strides[-2:]
    as_it_is = (column == 1 and row >= columns) or (row == 1 and column >= rows)
    return 0 if as_it_is else matrix.dtype.itemsize * rows * columns


_ADDED = ("self", "batch1", "batch2")
MATMULS: Mapping[str, tuple[tuple[str, ...], Callable[[OperatorCall], int | None]]] = {
    "aten::mm": (("self", "mat2"), _matmul("self", "mat2")),
    "aten::bmm": (("self", "mat2"), _matmul("self", "mat2")),
    "aten::addmm": (("self", "mat1", "mat2"), _matmul("mat1", "mat2")),
    "aten::baddbmm": (_ADDED, _matmul("batch1", "batch2")),
}
"""The names of their arguments, and the rule."""
