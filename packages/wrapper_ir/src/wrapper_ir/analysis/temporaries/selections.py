"""Temporaries of sorts, of the largest elements and of running sums, and results of theirs that nothing takes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from wrapper_ir import ir
from wrapper_ir.analysis.temporaries.call import OperatorCall

_INDEX = ir.DType.I64.itemsize


def _sort(call: OperatorCall) -> int | None:
    """Indices of one row; whole numbers are sorted by their digits on some CPUs."""
    given = call.tensor("self")
    if given is None or not given.dtype.is_floating or not given.sizes:
        return None
    count = math.prod(given.sizes)
    row = _INDEX * given.sizes[call.number("dim", -1)] if count > 1 else 0
    return row + call.left((given.bytes, _INDEX * count))


def _topk(call: OperatorCall) -> int | None:
    given = call.tensor("self")
    if given is None or not given.sizes or 0 in given.sizes:
        return None
    kept = math.prod(given.sizes) // given.sizes[call.number("dim", -1)] * call.number("k", 1)
    return call.left((given.dtype.itemsize * kept, _INDEX * kept))


def _running(call: OperatorCall) -> int | None:
    """A copy of elements that are summed as another type."""
    given, made = call.tensor("self"), call.made
    if given is None or made is None:
        return None
    return 0 if given.dtype is made.dtype else made.bytes


SELECTIONS: Mapping[str, tuple[tuple[str, ...], Callable[[OperatorCall], int | None]]] = {
    "aten::sort": (("self", "dim", "descending"), _sort),
    "aten::sort.stable": (("self",), _sort),
    "aten::cumsum": (("self", "dim"), _running),
    "aten::cumprod": (("self", "dim"), _running),
    "aten::topk": (("self", "k", "dim", "largest", "sorted"), _topk),
}
"""The names of their arguments, and the rule."""
