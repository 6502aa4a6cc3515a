"""Fuses convolutions with the batch norm, addition and activation that follow them.

    convolution -> sub, mul, mul, add (per channel) -> add (a residual) -> an activation

becomes one call of `wrapper_ir::fused_convolution`, which the native runtime computes in one pass. Scale and
bias of its channels are computed from the constants of the batch norm in each call: they are few, and an
update of the constants stays possible.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.fx import GraphModule, Node
from torch.fx.experimental.symbolic_shapes import statically_known_true

from wrapper_ir_torch.activations import Activation, activation_of
from wrapper_ir_torch.graph_calls import call_like
from wrapper_ir_torch.graph_modules import graph_modules

_ATEN = torch.ops.aten


def fuse_convolutions(gm: GraphModule) -> None:
    """Fuses the float32 convolutions of a graph and its subgraphs on a CPU.

    Nodes must have fake values (`meta["val"]`); new nodes get theirs.
    """
    for module in graph_modules(gm):
        calls = module.graph.find_nodes(op="call_function", target=_ATEN.convolution.default)
        if sum(_fuse(call) for call in calls if _can_fuse(call)):
            module.recompile()


def _can_fuse(call: Node) -> bool:
    values = [node.meta["val"] for node in (call, *call.all_input_nodes)]
    kinds = {(value.dtype, value.device.type, value.layout) for value in values}
    return kinds == {(torch.float32, "cpu", torch.strided)} and call.args[6] is False and not call.kwargs


@dataclass(slots=True)
class _Chain:
    """Nodes that follow a convolution, of which `last` is the result; `factors` and `terms` are per
    channel."""

    call: Node
    last: Node
    nodes: list[Node] = field(default_factory=list)
    steps: list[tuple[object, Node]] = field(default_factory=list)
    residual: Node | None = None
    activation: Activation | None = None

    def follow(self) -> None:
        """Follows the convolution as far as an epilogue can compute."""
        while (step := self._step()) is not None:
            node, other = step
            self.nodes.append(node)
            self.last = node
            if _is_channel_vector(other, self.call):
                self.steps.append((node.target, other))
            else:
                self.residual = other
        self.activation = activation_of(self.last)
        if self.activation is not None:
            self.nodes += [n for n in self.call.graph.nodes if n in self.activation.nodes]
            self.last = self.activation.node

    def _step(self) -> tuple[Node, Node] | None:
        """Returns the only user of the last node and its other operand, if an epilogue can compute it."""
        if len(self.last.users) != 1 or self.residual is not None:
            return None
        (user,) = self.last.users
        others = [node for node in user.all_input_nodes if node is not self.last]
        if len(user.args) != 2 or len(others) != 1 or user.kwargs or not _is_like(user, self.call):
            return None
        (other,) = others
        match other.meta.get("val"):
            case Tensor():
                pass
            case _:
                return None
        if _is_channel_vector(other, self.call):
            is_left = user.args[0] is self.last
            targets = (_ATEN.add.Tensor, _ATEN.mul.Tensor, *([_ATEN.sub.Tensor] if is_left else []))
            return (user, other) if user.target in targets else None
        is_residual = user.target == _ATEN.add.Tensor and _is_like(other, self.call)
        return (user, other) if is_residual else None


def _fuse(call: Node) -> bool:
    """Replaces a convolution and its epilogue; returns whether there is one."""
    chain = _Chain(call, call)
    chain.follow()
    if not chain.nodes:
        return False
    importlib.import_module("wrapper_ir_torch.native_operators")  # registers the operator
    source, weight, first, stride, padding, dilation, _, _, groups = call.args
    with call.graph.inserting_before(chain.last):
        scale, bias = _channels(chain, None if first is None else call.all_input_nodes[-1])
        activation = chain.activation
        ends = ("none", 0.0, 0.0)
        if activation is not None:
            ends = (activation.name, activation.low, activation.high)
        args = (source, weight, bias, stride, padding, dilation, groups, scale, chain.residual, *ends)
        fused = call_like(chain.last, torch.ops.wrapper_ir.fused_convolution.default, *args)
    chain.last.replace_all_uses_with(fused)
    for node in reversed((call, *chain.nodes)):
        call.graph.erase_node(node)
    return True


def _channels(chain: _Chain, bias: Node | None) -> tuple[Node | None, Node | None]:
    """Returns scale and bias of the channels, from the steps that apply them."""
    scale: Node | None = None
    for target, other in chain.steps:
        vector = call_like(chain.last, _ATEN.reshape.default, other, [chain.call.meta["val"].size(1)])
        if target == _ATEN.mul.Tensor:
            scale = vector if scale is None else call_like(chain.last, _ATEN.mul.Tensor, scale, vector)
            bias = None if bias is None else call_like(chain.last, _ATEN.mul.Tensor, bias, vector)
            continue
        term = vector if target == _ATEN.add.Tensor else call_like(chain.last, _ATEN.neg.default, vector)
        bias = term if bias is None else call_like(chain.last, _ATEN.add.Tensor, bias, term)
    return scale, bias


def _is_like(node: Node, call: Node) -> bool:
    """Returns whether a node has the sizes, element type and device of a convolution's result."""
    one, other = node.meta["val"], call.meta["val"]
    if (one.dtype, one.device, one.dim()) != (other.dtype, other.device, other.dim()):
        return False
    return all(map(statically_known_true, _equalities(one, other)))


def _equalities(one: Tensor, other: Tensor) -> Iterator[bool]:
    yield from (a == b for a, b in zip(one.shape, other.shape, strict=True))


def _is_channel_vector(node: Node, call: Node) -> bool:
    """Returns whether a value has one number for each channel of a convolution's result."""
    value, result = node.meta["val"], call.meta["val"]
    sizes, channels = list(value.shape), result.size(1)
    sizes = [1] * (result.dim() - len(sizes)) + sizes
    is_float = value.dtype == result.dtype and value.device == result.device
    expected = [1, channels, *[1] * (result.dim() - 2)]
    return is_float and all(type(n) is int for n in (*sizes, channels)) and sizes == expected
