"""Views in a functional graph: their bases, and the same views of other values."""

from __future__ import annotations

import operator
from collections.abc import Mapping

from torch import fx
from torch._ops import OpOverload


def is_view(node: fx.Node) -> bool:
    """Returns whether a node is a view of its first argument, or one of several such views."""
    if node.target is operator.getitem:
        return isinstance(node.args[0], fx.Node) and is_view(node.args[0])
    return isinstance(node.target, OpOverload) and node.target.is_view and isinstance(node.args[0], fx.Node)


def root_of(node: fx.Node) -> fx.Node:
    """Returns the base of `node`, through a chain of views."""
    while is_view(node) and isinstance(node.args[0], fx.Node):
        node = node.args[0]
    return node


def replayed(node: fx.Node, others: Mapping[fx.Node, fx.Node]) -> fx.Node:
    """Returns the replacement of `node` in `others`; if it is a view of a replaced node, the view of the
    replacement.

    New views are inserted at the end of the graph. Other nodes are returned unchanged.
    """
    chain: list[fx.Node] = []
    current = node
    while current not in others:
        if not is_view(current) or not isinstance(current.args[0], fx.Node):
            return node
        chain.append(current)
        current = current.args[0]
    copies = {current: others[current]}
    for view in reversed(chain):
        with node.graph.inserting_before(node.graph.output_node()):
            copies[view] = node.graph.node_copy(view, lambda n: copies.get(n, n))
    return copies[node]
