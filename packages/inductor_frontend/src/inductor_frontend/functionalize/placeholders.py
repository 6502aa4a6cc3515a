"""Replaces inputs of a graph by values in it."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import fx
from torch._ops import HigherOrderOperator
from torch.fx.node import Argument

from inductor_frontend.functionalize.views import is_view, root_of

_CLONE = torch.ops.aten.clone.default
_LIFT = torch.ops.aten.lift_fresh_copy.default


def bake_in(node: fx.Node, value: Argument) -> None:
    """Replaces an input by a value and erases the input."""
    for user in list(node.users):
        user.args = fx.map_arg(user.args, lambda n: value if n is node else n)
        user.kwargs = fx.map_arg(user.kwargs, lambda n: value if n is node else n)
    node.graph.erase_node(node)


def inline(gm: fx.GraphModule, literals: Mapping[str, torch.Tensor]) -> None:
    """Converts literal tensors to attributes, so that torch can fold them into kernels.

    Copies of a literal that are returned stay copies: Inductor removes a `clone` of an attribute, but not
    `lift_fresh_copy`. A literal with one element is also read through such a copy: Inductor lowers the
    attribute to a number, which many operators do not accept. Literals that are operands of higher-order
    operators stay inputs, since these operators need tensors in memory.
    """
    placeholders = {n.name: n for n in gm.graph.nodes if n.op == "placeholder"}
    returned = {root_of(n) for n in gm.graph.output_node().all_input_nodes}
    for name, tensor in literals.items():
        node = placeholders[name]
        copies = [n for n in node.users if n.target is _CLONE]
        if any(_is_operand(n) for n in (node, *copies)):
            continue
        attribute = f"_literal_{name}"
        gm.register_buffer(attribute, tensor, persistent=False)
        with gm.graph.inserting_after(node):
            replacement = gm.graph.get_attr(attribute)
        replacement.meta = dict(node.meta)
        for copy in copies:
            if copy in returned or tensor.dim() == 0:
                copy.target, copy.args, copy.kwargs = _LIFT, (node,), {}
        others = [n for n in node.users if n.target is not _LIFT]
        node.replace_all_uses_with(replacement)
        if tensor.dim() == 0 and others:
            with gm.graph.inserting_after(replacement):
                lifted = gm.graph.call_function(_LIFT, (replacement,))
            lifted.meta = dict(node.meta)
            for user in others:
                user.replace_input_with(replacement, lifted)
        gm.graph.erase_node(node)


def _is_operand(node: fx.Node) -> bool:
    """Returns whether a tensor, or a view of it, is an operand of a higher-order operator."""
    return any(
        isinstance(n.target, HigherOrderOperator) or (is_view(n) and _is_operand(n)) for n in node.users
    )
