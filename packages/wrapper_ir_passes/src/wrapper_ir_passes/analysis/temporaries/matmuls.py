"""Temporaries of matmuls: copies of matrices whose layout BLAS does not accept."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from wrapper_ir import ir
from wrapper_ir_passes.analysis.temporaries.call import Operand, OperatorCall

_HALF = (ir.DType.F16, ir.DType.BF16)
"""On some CPUs, oneDNN runs their matmuls with scratch memory that depends on the CPU."""
_FEW = 400
"""Batched matmuls with fewer multiplications per matrix run as a loop without BLAS."""


def _matmul(first: str, second: str) -> Callable[[OperatorCall], int | None]:
    def rule(call: OperatorCall) -> int | None:
        operands = call.tensor(first), call.tensor(second), call.result
        matrices = [m for m in operands if m is not None]
        is_other = any(m.dtype in _HALF or m.dtype.itemsize < ir.DType.F32.itemsize for m in matrices)
        if len(matrices) < len(operands) or is_other:
            return None
        if any(0 in m.sizes for m in matrices) or _is_small(matrices):
            return 0
        return sum(map(_copy, matrices))

    return rule


def _is_small(matrices: list[Operand]) -> bool:
    """Returns whether torch multiplies batches of matrices in a loop."""
    lhs, _, result = matrices
    return len(result.sizes) == 3 and math.prod(result.sizes[1:]) * lhs.sizes[2] < _FEW


def _copy(matrix: Operand) -> int:
    """Bytes of a copy of one matrix of a batch; 0 if its rows or its columns are contiguous."""
    (rows, columns), (row, column) = matrix.sizes[-2:], matrix.strides[-2:]
    is_accepted = (column == 1 and row >= columns) or (row == 1 and column >= rows)
    return 0 if is_accepted else matrix.dtype.itemsize * rows * columns


_ADDED = ("self", "batch1", "batch2")
MATMULS: Mapping[str, tuple[tuple[str, ...], Callable[[OperatorCall], int | None]]] = {
    "aten::mm": (("self", "mat2"), _matmul("self", "mat2")),
    "aten::bmm": (("self", "mat2"), _matmul("self", "mat2")),
    "aten::addmm": (("self", "mat1", "mat2"), _matmul("mat1", "mat2")),
    "aten::baddbmm": (_ADDED, _matmul("batch1", "batch2")),
}
"""The names of the arguments and the rule of each operator."""
