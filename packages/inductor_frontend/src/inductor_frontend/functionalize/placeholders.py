"""Inputs of a graph that become part of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import fx

__all__ = ["bake_in", "inline"]


def bake_in(node: fx.Node, value: Any) -> None:
    """Puts a value in the place of an input. Any: what a graph may hold."""
    for user in list(node.users):
        user.args = fx.map_arg(user.args, lambda n: value if n is node else n)
        user.kwargs = fx.map_arg(user.kwargs, lambda n: value if n is node else n)
    node.graph.erase_node(node)


def inline(gm: fx.GraphModule, literals: Mapping[str, torch.Tensor]) -> None:
    """Turns literal tensors into attributes, so that torch may fold them into kernels."""
    placeholders = {n.name: n for n in gm.graph.nodes if n.op == "placeholder"}
    for name, tensor in literals.items():
        node = placeholders[name]
        attribute = f"_literal_{name}"
        gm.register_buffer(attribute, tensor, persistent=False)
        with gm.graph.inserting_after(node):
            replacement = gm.graph.get_attr(attribute)
        replacement.meta = dict(node.meta)
        node.replace_all_uses_with(replacement)
        gm.graph.erase_node(node)
