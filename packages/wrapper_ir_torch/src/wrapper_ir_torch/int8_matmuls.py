"""Rewrites matmuls of quantized models with constant int8 weights, so that programs show them.

torchao and torch.ao export such a matmul with arithmetic around it. Inductor fuses that into kernels, where
no pass can see that an operand is a constant. Sums of products of integers are exact, so results differ from
the exported ones by rounding alone.

| exported | becomes |
| --- | --- |
| `x @ W.to(float)` | the same; the conversion is the operator `aten::_to_copy` |
| `x @ dequantize(W)` | `x @ W.to(float) * scale` |
| `int_mm(q + 128, W) - 128 * sum(W)` | `int_mm(q, W)` |
| `dequantize(q) @ dequantize(W)` | `(int_mm(q, W) - zero_point * sum(W)) * (q_scale * scale)` |

The last sum is the product of one more row, which is the zero point, so it reads the weight only once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor
from torch.fx import GraphModule, Node
from torch.fx.node import Argument, map_arg

from wrapper_ir_torch.int8_operands import (
    Constants,
    Rows,
    Weight,
    before_shift,
    call_of,
    is_sum_of_columns,
    node_of,
    rows_of,
    type_of,
)

_ATEN = torch.ops.aten
WIDENS = _ATEN._to_copy.default
"""Graphs that Inductor has decomposed lack this operator otherwise."""
_CONVERT = torch.ops.prims.convert_element_type.default
_CHECKS = _ATEN._assert_tensor_metadata.default
_MOST_PRODUCTS = 1 << 16
"""Sums of more products of bytes may not fit into 32 bits."""
_SHIFT = 128
_END = (1 << 63) - 1


def show_int8_matmuls(gm: GraphModule, constants: Mapping[str, Tensor]) -> None:
    """Rewrites matmuls on the CPU in place. `constants` are immutable, by the names of placeholders."""
    weights = Constants(constants)
    if not weights:
        return
    for node in list(gm.graph.nodes):
        rewrite = _REWRITES.get(str(node.target)) if node.op == "call_function" else None
        result = rewrite(_Writer(node), weights) if rewrite is not None else None
        if result is not None:
            node.replace_all_uses_with(result)
            _erase(node)
    gm.recompile()


class _Writer:
    """Writes nodes in front of a node that they replace."""

    def __init__(self, node: Node) -> None:
        self.node = node

    def __call__(self, target: Callable[..., object], *args: Argument, **kwargs: Argument) -> Node:
        """Writes a call with the origin of the replaced node."""
        with self.node.graph.inserting_before(self.node):
            new = self.node.graph.call_function(target, args, kwargs)
        fakes = map_arg(args, lambda operand: operand.meta["val"])
        new.meta = {key: value for key, value in self.node.meta.items() if key != "tensor_meta"}
        new.meta["val"] = target(*fakes, **kwargs)
        return new

    def product(self, rows: Node, weight: Weight) -> Node:
        """Writes the product with a weight that an operator converts."""
        floats = self(WIDENS, weight.matrix, dtype=type_of(rows))
        product = self(_ATEN.mm.default, rows, self(_ATEN.permute.default, floats, [1, 0]))
        return product if weight.scale is None else self(_ATEN.mul.Tensor, product, weight.scale)

    def exact_product(self, rows: Rows, matrix: Node) -> Node:
        """Writes the product of integers less their zero point."""
        integers, zero_point = rows.integers, rows.zero_point
        if type_of(integers) is torch.uint8:
            shift = self(_ATEN.sub.Tensor, self(_CONVERT, integers, torch.int32), _SHIFT)
            integers = self(_CONVERT, shift, torch.int8)
            if isinstance(zero_point, int):
                zero_point -= _SHIFT
            else:
                zero_point = self(_ATEN.sub.Tensor, zero_point, _SHIFT)
        if rows.sizes is not None:
            integers = self(_ATEN.view.default, integers, rows.sizes)
        columns = self(_ATEN.permute.default, matrix, [1, 0])
        if zero_point == 0:
            return self(_ATEN._int_mm.default, integers, columns)
        more = self._with_row(integers, zero_point, matrix.meta["val"].size(1))
        sums = self(_ATEN._int_mm.default, more, columns)
        last = self(_ATEN.slice.Tensor, sums, 0, -1, _END)
        return self(_ATEN.sub.Tensor, self(_ATEN.slice.Tensor, sums, 0, 0, -1), last)

    def _with_row(self, integers: Node, value: Argument, columns: int) -> Node:
        """Writes the rows and one more of a value. Inductor fuses padding, but not `cat` of bytes."""
        if node_of(value) is None:
            return self(_ATEN.constant_pad_nd.default, integers, [0, 0, 0, 1], value)
        byte = self(_ATEN.view.default, self(_CONVERT, value, torch.int8), [1, 1])
        return self(_ATEN.cat.default, [integers, self(_ATEN.expand.default, byte, [1, columns])])


def _mm(write: _Writer, constants: Constants) -> Node | None:
    rows, matrix = write.node.args
    return _product(write, constants, rows, matrix)


def _addmm(write: _Writer, constants: Constants) -> Node | None:
    bias, rows, matrix = write.node.args
    if any(factor != 1 for factor in write.node.kwargs.values()):
        return None
    product = _product(write, constants, rows, matrix)
    return None if product is None else write(_ATEN.add.Tensor, product, bias)


def _product(write: _Writer, constants: Constants, operand: Argument, matrix: Argument) -> Node | None:
    """Writes the product of an operand with an int8 weight; None if the matrix is not such a weight."""
    weight, rows, node = constants.weight(matrix), rows_of(operand), node_of(operand)
    if weight is None or node is None:
        return None
    if rows is None or weight.scale is None or weight.matrix.meta["val"].size(1) > _MOST_PRODUCTS:
        return write.product(node, weight)
    floats = write(_CONVERT, write.exact_product(rows, weight.matrix), torch.float32)
    scale = node_of(rows.scale)
    factor = rows.scale if scale is None else write(_CONVERT, scale, torch.float32)
    return write(_ATEN.mul.Tensor, floats, write(_ATEN.mul.Tensor, weight.scale, factor))


def _sub(write: _Writer, constants: Constants) -> Node | None:
    """Writes the product of the int8 rows that torchao moves to integers without sign."""
    product = call_of(write.node.args[0], "aten._int_mm.default")
    if product is None or write.node.kwargs:
        return None
    rows, matrix = product.args
    integers = before_shift(rows)
    is_excess = is_sum_of_columns(write.node.args[1], matrix, _SHIFT)
    if integers is None or not is_excess or constants.transpose(matrix) is None:
        return None
    return write(_ATEN._int_mm.default, integers, matrix)


_REWRITES: Mapping[str, Callable[[_Writer, Constants], Node | None]] = {
    "aten.mm.default": _mm,
    "aten.addmm.default": _addmm,
    "aten.sub.Tensor": _sub,
}


def _erase(node: Node) -> None:
    """Removes a node whose result nothing uses but checks of its type, and operands that only it used."""
    if node.op != "call_function" or node.is_impure() or any(u.target is not _CHECKS for u in node.users):
        return
    for check in list(node.users):
        node.graph.erase_node(check)
    operands = node.all_input_nodes
    node.graph.erase_node(node)
    for operand in operands:
        _erase(operand)
