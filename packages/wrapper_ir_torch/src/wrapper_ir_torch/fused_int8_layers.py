"""Fuses matmuls with int8 weights with the scales, bias and activation that follow them.

    rounding of rows -> product -> row scales, scales -> bias -> an activation

becomes one call of `wrapper_ir::int8_linear`, which the native runtime computes in one pass. If several
products read the same rounded rows, they are rounded once, before the calls.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.fx import GraphModule, Node
from torch.fx.experimental.symbolic_shapes import statically_known_true
from torch.fx.node import Argument

from wrapper_ir_torch.activations import Activation, activation_of
from wrapper_ir_torch.graph_calls import call_like
from wrapper_ir_torch.graph_modules import graph_modules
from wrapper_ir_torch.int8_operands import CONVERT, PERMUTE, call_of, node_of, type_of
from wrapper_ir_torch.rounded_rows import rounded_rows, without_views

_ATEN = torch.ops.aten
_VIEWS = (_ATEN.view.default, _ATEN.reshape.default, _ATEN._unsafe_view.default)
_PRODUCTS = (_ATEN.mm.default, _ATEN._int_mm.default)


def fuse_int8_layers(gm: GraphModule) -> None:
    """Fuses the layers with int8 weights of a graph and its subgraphs on a CPU.

    Nodes must have fake values (`meta["val"]`); new nodes get theirs.
    """
    for module in graph_modules(gm):
        calls = [
            node for node in module.graph.nodes if node.target in _PRODUCTS and node.op == "call_function"
        ]
        is_changed = False
        for call in calls:
            # A layer before this one may have replaced its rows.
            layer = _layer(call)
            if layer is not None:
                _fuse(layer)
                is_changed = True
        if is_changed:
            module.recompile()


@dataclass(slots=True)
class _Layer:
    """A product, and the nodes that follow it, of which `last` is the result. `view`: the last view."""

    call: Node
    rows: Node
    weight: Node
    last: Node
    nodes: list[Node] = field(default_factory=list)
    scales: list[Node] = field(default_factory=list)
    row_scales: Node | None = None
    bias: Node | None = None
    view: Node | None = None
    activation: Activation | None = None

    def follow(self) -> None:
        """Follows the product as far as an epilogue can compute."""
        while len(self.last.users) == 1:
            (user,) = self.last.users
            if not self._accepts(user):
                break
            self.nodes.append(user)
            self.last = user
        if type_of(self.last) is torch.float32:
            self.activation = activation_of(self.last)
        if self.activation is not None:
            self.nodes += [n for n in self.call.graph.nodes if n in self.activation.nodes]
            self.last = self.activation.node

    def _accepts(self, user: Node) -> bool:
        """Returns whether an epilogue can compute the only user of the last node; notes its operand."""
        value, current = user.meta.get("val"), self.last.meta["val"]
        if not isinstance(value, Tensor) or user.op != "call_function":
            return False
        if user.target in _VIEWS:
            is_of_rows = value.dim() > 0 and statically_known_true(value.shape[-1] == current.shape[-1])
            self.view = user if is_of_rows else self.view
            return is_of_rows
        if str(user.target) == CONVERT:
            return (current.dtype, value.dtype) == (torch.int32, torch.float32)
        if len(user.args) != 2 or user.kwargs or not _is_like(user, self.last):
            return False
        first, second = user.args
        other = node_of(second if first is self.last else first)
        return other is not None and other is not self.last and self._takes(user, other)

    def _takes(self, user: Node, other: Node) -> bool:
        columns = self.weight.meta["val"].size(0)
        if self.bias is not None or not isinstance(other.meta.get("val"), Tensor):
            return False
        if type_of(other) is not torch.float32 or other.meta["val"].device.type != "cpu":
            return False
        if _is_row(other, columns):
            if user.target == _ATEN.mul.Tensor:
                self.scales.append(other)
                return True
            if user.target == _ATEN.add.Tensor:
                self.bias = other
                return True
            return False
        is_first = user.target == _ATEN.mul.Tensor and self.row_scales is None
        if not is_first or type_of(self.rows) is not torch.int8 or not _is_column(other, self.last):
            return False
        self.row_scales = other
        return True


def _layer(call: Node) -> _Layer | None:
    """Returns a product with an int8 weight and what follows it; None if nothing does."""
    rows, matrix = (node_of(operand) for operand in call.args[:2])
    weight = _weight(matrix)
    if rows is None or weight is None or call.kwargs:
        return None
    is_exact = call.target == _ATEN._int_mm.default
    if type_of(rows) is not (torch.int8 if is_exact else torch.float32):
        return None
    layer = _Layer(call, rows, weight, call)
    layer.follow()
    is_float = type_of(layer.last) is torch.float32
    return (
        layer
        if is_float and (layer.scales or layer.bias is not None or layer.row_scales is not None)
        else None
    )


def _weight(operand: Argument) -> Node | None:
    """Returns the int8 input of the graph whose transpose an operand is, or that as floats."""
    transposed = call_of(operand, PERMUTE)
    if transposed is None or transposed.args[1] != [1, 0]:
        return None
    widened = call_of(transposed.args[0], "aten._to_copy.default")
    node = node_of(transposed.args[0] if widened is None else widened.args[0])
    if node is None or node.op != "placeholder":
        return None
    value = node.meta["val"]
    is_weight = (value.dtype, value.layout, value.device.type) == (torch.int8, torch.strided, "cpu")
    return node if is_weight and value.dim() == 2 and value.is_contiguous() else None


def _fuse(layer: _Layer) -> None:
    importlib.import_module("wrapper_ir_torch.native_operators")  # registers the operator
    graph, last = layer.call.graph, layer.last
    columns = layer.weight.meta["val"].size(0)
    with graph.inserting_before(last):
        scales: Node | None = None
        for one in layer.scales:
            vector = _vector(one, last, columns)
            scales = vector if scales is None else call_like(last, _ATEN.mul.Tensor, scales, vector)
        bias = None if layer.bias is None else _vector(layer.bias, last, columns)
        rows, row_scales, kind = _rows(layer)
        end: tuple[Argument, ...] = ("none", 0.0, 0.0)
        if layer.activation is not None:
            end = (layer.activation.name, layer.activation.low, layer.activation.high)
        operator = torch.ops.wrapper_ir.int8_linear.default
        result = call_like(last, operator, rows, layer.weight, scales, row_scales, bias, kind, *end)
        if layer.view is not None:
            result = call_like(last, _ATEN.reshape.default, result, layer.view.args[1])
    last.replace_all_uses_with(result)
    _erase(last)


def _vector(node: Node, origin: Node, columns: int) -> Node:
    """Returns a row as a vector."""
    is_vector = node.meta["val"].dim() == 1
    return node if is_vector else call_like(origin, _ATEN.reshape.default, node, [columns])


def _rows(layer: _Layer) -> tuple[Node, Node | None, str]:
    """Returns rows, their scales, and how they are rounded; rows that others read are rounded before."""
    rounded = rounded_rows(layer.rows)
    row_scales = layer.row_scales
    if (
        rounded is not None
        and row_scales is not None
        and _has_one_reader(layer.rows)
        and without_views(row_scales) is without_views(rounded.scales)
    ):
        floats = rounded.floats
        if rounded.sizes is not None:
            floats = call_like(layer.last, _ATEN.reshape.default, floats, rounded.sizes)
        return floats, None, "int8"
    if row_scales is not None:
        row_scales = call_like(layer.last, _ATEN.reshape.default, row_scales, [-1])
    return layer.rows, row_scales, "exact"


def _has_one_reader(rows: Node) -> bool:
    """Returns whether rows, and the integers that they view, have one user."""
    source = rows
    while len(source.users) == 1:
        view = call_of(source, "aten.view.default", "aten.reshape.default")
        inner = None if view is None else node_of(view.args[0])
        if inner is None:
            return True
        source = inner
    return False


def _is_like(node: Node, other: Node) -> bool:
    """Returns whether two nodes have the same sizes, element type and device."""
    one, two = node.meta["val"], other.meta["val"]
    if (one.dtype, one.device, one.dim()) != (two.dtype, two.device, two.dim()):
        return False
    return all(statically_known_true(a == b) for a, b in zip(one.shape, two.shape, strict=True))


def _is_row(node: Node, columns: int) -> bool:
    """Returns whether a value has a number for each column."""
    sizes = list(node.meta["val"].shape)
    return bool(sizes) and all(type(n) is int for n in sizes) and sizes == [*[1] * (len(sizes) - 1), columns]


def _is_column(node: Node, product: Node) -> bool:
    """Returns whether a value has a number for each row of the product."""
    one, two = node.meta["val"], product.meta["val"]
    if one.dim() != two.dim() or not statically_known_true(one.shape[-1] == 1):
        return False
    return all(statically_known_true(a == b) for a, b in zip(one.shape[:-1], two.shape[:-1], strict=True))


def _erase(node: Node) -> None:
    """Removes a node that nothing uses, and operands that only it used."""
    pending, erased = [node], set[Node]()
    while pending:
        one = pending.pop()
        if one in erased or one.op != "call_function" or one.users or one.is_impure():
            continue
        pending += one.all_input_nodes
        one.graph.erase_node(one)
        erased.add(one)
