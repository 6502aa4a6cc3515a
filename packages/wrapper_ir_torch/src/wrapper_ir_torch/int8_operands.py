"""Operands of matmuls that quantized models compute from 8-bit integers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.fx import Node
from torch.fx.node import Argument

PERMUTE, CONVERT = "aten.permute.default", "prims.convert_element_type.default"
_VIEWS = ("aten.view.default", "aten.reshape.default")
_PER_CHANNEL = "quantized_decomposed.dequantize_per_channel.default"
_PER_TENSOR = (
    "quantized_decomposed.dequantize_per_tensor.default",
    "quantized_decomposed.dequantize_per_tensor.tensor",
)


@dataclass(frozen=True, slots=True)
class Weight:
    """A constant of `[outputs, inputs]`, whose transpose an operand is as floats; `scale`: of each output."""

    matrix: Node
    scale: Argument


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of integers that were dequantized, and then viewed with `sizes` unless None.

    The scale and the zero point are numbers, or tensors without dimensions.
    """

    integers: Node
    scale: Argument
    zero_point: Argument
    sizes: Argument


class Constants:
    """The immutable constants of a graph, by the names of their placeholders."""

    def __init__(self, constants: Mapping[str, Tensor]) -> None:
        self._weights = {name for name, data in constants.items() if _may_be_weight(data)}
        self._zeros = {name for name, data in constants.items() if self._weights and _is_zero(data)}

    def __bool__(self) -> bool:
        """Returns whether there are int8 weights."""
        return bool(self._weights)

    def matrix(self, operand: Argument) -> Node | None:
        """Returns the weight that an operand is: a contiguous matrix of int8 on the CPU."""
        node = node_of(operand)
        is_weight = node is not None and node.op == "placeholder" and node.name in self._weights
        return node if is_weight else None

    def transpose(self, operand: Argument) -> Node | None:
        """Returns the weight whose transpose an operand is."""
        node = _transposed(operand)
        return None if node is None else self.matrix(node.args[0])

    def weight(self, operand: Argument) -> Weight | None:
        """Returns the weight whose transpose an operand is, converted or dequantized."""
        conversion = call_of(operand, CONVERT)
        matrix = None if conversion is None else self.transpose(conversion.args[0])
        if matrix is not None:
            return Weight(matrix, None)
        transposition = _transposed(operand)
        if transposition is None:
            return None
        conversion = call_of(transposition.args[0], CONVERT)
        matrix = None if conversion is None else self.matrix(conversion.args[0])
        return self._dequantized(transposition.args[0]) if matrix is None else Weight(matrix, None)

    def _dequantized(self, operand: Argument) -> Weight | None:
        node = call_of(operand, _PER_CHANNEL)
        if node is None or type_of(node) is not torch.float32:
            return None
        matrix, zero_point = self.matrix(node.args[0]), node_of(node.args[2])
        is_symmetric = node.args[2] is None or (zero_point is not None and zero_point.name in self._zeros)
        return (
            Weight(matrix, node.args[1])
            if matrix is not None and is_symmetric and node.args[3] == 0
            else None
        )


def node_of(operand: Argument) -> Node | None:
    """Returns an operand that is a node."""
    return operand if isinstance(operand, Node) else None


def call_of(operand: Argument, *targets: str) -> Node | None:
    """Returns an operand that is a call of one of these operators."""
    node = node_of(operand)
    return node if node is not None and str(node.target) in targets else None


def type_of(node: Node) -> torch.dtype:
    """Returns the element type of a node's tensor."""
    dtype: torch.dtype = node.meta["val"].dtype
    return dtype


def rows_of(operand: Argument) -> Rows | None:
    """Returns the integers that an operand was dequantized from."""
    view = call_of(operand, *_VIEWS)
    node = call_of(operand if view is None else view.args[0], *_PER_TENSOR)
    if node is None or type_of(node) is not torch.float32:
        return None
    integers = node_of(node.args[0])
    if integers is None or type_of(integers) not in (torch.int8, torch.uint8):
        return None
    return Rows(integers, node.args[1], node.args[2], None if view is None else view.args[1])


def before_shift(operand: Argument) -> Node | None:
    """Returns the int8 tensor `q` of `(q.int() + 128).to(uint8)`."""
    narrow = call_of(operand, CONVERT)
    shift = None if narrow is None else call_of(narrow.args[0], "aten.add.Tensor")
    wide = None if shift is None or shift.args[1] != 128 else call_of(shift.args[0], CONVERT)
    node = None if wide is None else node_of(wide.args[0])
    if narrow is None or wide is None or node is None:
        return None
    is_same = (type_of(node), type_of(wide), type_of(narrow)) == (torch.int8, torch.int32, torch.uint8)
    return node if is_same else None


def is_sum_of_columns(operand: Argument, matrix: Argument, factor: int) -> bool:
    """Returns whether an operand is the row of sums of columns of a matrix, times a factor."""
    product = call_of(operand, "aten.mul.Tensor")
    sums = None if product is None else call_of(product.args[0], "aten.sum.dim_IntList")
    if product is None or sums is None or product.args[1] != factor:
        return False
    is_row = list(sums.args[1:3]) == [[0], True] and type_of(sums) is torch.int32
    return is_row and sums.args[0] is matrix


def _transposed(operand: Argument) -> Node | None:
    node = call_of(operand, PERMUTE)
    return node if node is not None and node.args[1] == [1, 0] else None


def _may_be_weight(data: Tensor) -> bool:
    is_plain = (data.dtype, data.layout, data.device.type) == (torch.int8, torch.strided, "cpu")
    return is_plain and data.dim() == 2 and data.is_contiguous()


def _is_zero(data: Tensor) -> bool:
    """Returns whether a constant may be the zero points of a weight that has none."""
    is_readable = data.layout is torch.strided and data.device.type == "cpu" and data.dim() == 1
    return is_readable and data.dtype in (torch.int8, torch.int32, torch.int64) and not bool(data.any())
