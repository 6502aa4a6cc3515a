"""Temporaries and unused results of sort, topk and cumulative sums."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from wrapper_ir import ir
from wrapper_ir_passes.analysis.temporaries.call import OperatorCall

_INDEX = ir.DType.I64.itemsize


def _sort(call: OperatorCall) -> int | None:
    """The indices of one row. Unknown for ints, which use a radix sort on some CPUs."""
    operand = call.tensor("self")
    if operand is None or not operand.dtype.is_floating or not operand.sizes:
        return None
    count = math.prod(operand.sizes)
    row = _INDEX * operand.sizes[call.number("dim", -1)] if count > 1 else 0
    return row + call.unused((operand.bytes, _INDEX * count))


def _topk(call: OperatorCall) -> int | None:
    operand = call.tensor("self")
    if operand is None or not operand.sizes or 0 in operand.sizes:
        return None
    count = math.prod(operand.sizes) // operand.sizes[call.number("dim", -1)] * call.number("k", 1)
    return call.unused((operand.dtype.itemsize * count, _INDEX * count))


def _cumulative(call: OperatorCall) -> int | None:
    """A copy of the operand if it is converted to another type."""
    operand, result = call.tensor("self"), call.result
    if operand is None or result is None:
        return None
    return 0 if operand.dtype is result.dtype else result.bytes


SELECTIONS: Mapping[str, tuple[tuple[str, ...], Callable[[OperatorCall], int | None]]] = {
    "aten::sort": (("self", "dim", "descending"), _sort),
    "aten::sort.stable": (("self",), _sort),
    "aten::cumsum": (("self", "dim"), _cumulative),
    "aten::cumprod": (("self", "dim"), _cumulative),
    "aten::topk": (("self", "k", "dim", "largest", "sorted"), _topk),
}
"""The names of the arguments and the rule of each operator."""
