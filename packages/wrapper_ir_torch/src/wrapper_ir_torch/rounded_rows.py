"""Finds rows of floats that a graph rounds to int8 as torchao does: symmetric, with a scale for each row."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.fx import Node
from torch.fx.experimental.symbolic_shapes import statically_known_true
from torch.fx.node import Argument

from wrapper_ir_torch.int8_operands import CONVERT, call_of, node_of, type_of

_VIEWS = ("aten.view.default", "aten.reshape.default")
_LEAST_SCALE = torch.finfo(torch.float32).eps
_STEPS = 127.5


@dataclass(frozen=True, slots=True)
class RoundedRows:
    """Rows of float32, and the node of their scales.

    `sizes` are those of a view of the integers, unless None.
    """

    floats: Node
    scales: Node
    sizes: Argument


def rounded_rows(operand: Argument) -> RoundedRows | None:
    """Returns the rows that an operand of int8 was rounded from; None for other operands."""
    view = call_of(operand, *_VIEWS)
    integers = call_of(operand if view is None else view.args[0], CONVERT)
    rounded = None if integers is None else _bounded(integers.args[0], -128, 127)
    rounded = None if rounded is None else call_of(_without_zero(rounded), "aten.round.default")
    product = None if rounded is None else call_of(rounded.args[0], "aten.mul.Tensor")
    if integers is None or type_of(integers) is not torch.int8 or product is None:
        return None
    for floats, factor in (product.args, product.args[::-1]):
        x, scales = node_of(floats), _reciprocal_of(factor)
        if x is not None and scales is not None and _are_scales(without_views(scales), x):
            return RoundedRows(x, scales, None if view is None else view.args[1])
    return None


def without_views(node: Node) -> Node:
    """Returns the node that a node is a view of."""
    while (view := call_of(node, *_VIEWS)) is not None and (source := node_of(view.args[0])) is not None:
        node = source
    return node


def _bounded(operand: Argument, low: int, high: int) -> Argument:
    """Returns `x` of `clamp(x, low, high)`."""
    clamp = call_of(operand, "aten.clamp.default")
    if clamp is not None:
        return clamp.args[0] if clamp.args[1:] == (low, high) else None
    upper = call_of(operand, "aten.clamp_max.default")
    lower = (
        None if upper is None or upper.args[1] != high else call_of(upper.args[0], "aten.clamp_min.default")
    )
    return None if lower is None or lower.args[1] != low else lower.args[0]


def _without_zero(operand: Argument) -> Argument:
    """Returns `x` of `x + 0`; otherwise the operand."""
    total = call_of(operand, "aten.add.Tensor")
    if total is None or total.kwargs:
        return operand
    term = total.args[1]
    widened = call_of(term, CONVERT)
    return total.args[0] if term == 0 or _is_zeros(term if widened is None else widened.args[0]) else operand


def _is_zeros(operand: Argument) -> bool:
    """Returns whether an operand is a tensor of zeros."""
    zeros = call_of(operand, "aten.full.default")
    return zeros is not None and bool(zeros.args[1] == 0)


def _reciprocal_of(operand: Argument) -> Node | None:
    """Returns `x` of `1 / x`."""
    product = call_of(operand, "aten.mul.Tensor")
    if product is not None and product.args[1] == 1.0:
        operand = product.args[0]
    inverse = call_of(operand, "aten.reciprocal.default")
    if inverse is not None:
        return node_of(inverse.args[0])
    quotient = call_of(operand, "aten.div.Tensor")
    return node_of(quotient.args[1]) if quotient is not None and quotient.args[0] == 1.0 else None


def _are_scales(scales: Node, x: Node) -> bool:
    """Returns whether these are torchao's scales of the rows of `x`: `max(|x|) / 127.5`, at least epsilon."""
    bounded = call_of(scales, "aten.clamp_min.default", "aten.clamp.default")
    if bounded is None or len(bounded.args) != 2 or not _is_close(bounded.args[1], _LEAST_SCALE):
        return False
    quotient = call_of(bounded.args[0], "aten.div.Tensor", "aten.mul.Tensor")
    if quotient is None:
        return False
    steps = _STEPS if quotient.target == torch.ops.aten.div.Tensor else 1 / _STEPS
    return _is_close(quotient.args[1], steps) and _is_magnitude(quotient.args[0], x)


def _is_magnitude(operand: Argument, x: Node) -> bool:
    """Returns whether an operand is the largest magnitude of each row of `x`."""
    alone = call_of(operand, "aten.amax.default")
    if alone is not None:
        magnitude = call_of(alone.args[0], "aten.abs.default")
        return magnitude is not None and magnitude.args[0] is x and _is_of_rows(alone, x)
    largest = call_of(operand, "aten.maximum.default")
    if largest is None:
        return False
    for one, other in (largest.args, largest.args[::-1]):
        negative = call_of(one, "aten.neg.default")
        least = (
            None
            if negative is None
            else call_of(_bounded_by_zero(negative.args[0], "minimum"), "aten.amin.default")
        )
        most = call_of(_bounded_by_zero(other, "maximum"), "aten.amax.default")
        if least is not None and most is not None and {least.args[0], most.args[0]} == {x}:
            return _is_of_rows(least, x) and _is_of_rows(most, x)
    return False


def _bounded_by_zero(operand: Argument, name: str) -> Argument:
    """Returns `x` of `minimum(x, 0)` or `maximum(x, 0)`; otherwise the operand, which has the same result."""
    call = call_of(operand, f"aten.{name}.default")
    return call.args[0] if call is not None and _is_zeros(call.args[1]) else operand


def _is_of_rows(reduction: Node, x: Node) -> bool:
    """Returns whether a reduction has one number for each row of `x`."""
    value: Tensor = x.meta["val"]
    result: Tensor = reduction.meta["val"]
    dims = reduction.args[1] if len(reduction.args) > 1 else None
    is_last = isinstance(dims, (list, tuple)) and list(dims) in ([-1], [value.dim() - 1])
    rows = math.prod(value.shape[:-1])
    return is_last and value.dtype is torch.float32 and statically_known_true(result.numel() == rows)


def _is_close(value: object, expected: float) -> bool:
    return isinstance(value, (int, float)) and math.isclose(value, expected, rel_tol=1e-6)
