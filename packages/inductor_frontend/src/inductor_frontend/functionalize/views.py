"""Views in a functional graph: what they are views of, and the same views of something else."""

from __future__ import annotations

import operator
from collections.abc import Mapping

from torch import fx
from torch._ops import OpOverload


def is_view(node: fx.Node) -> bool:
    """Whether a node is a view of its first argument, or one of several such views."""
    if node.target is operator.getitem:
        return isinstance(node.args[0], fx.Node) and is_view(node.args[0])
    return isinstance(node.target, OpOverload) and node.target.is_view and isinstance(node.args[0], fx.Node)


def root_of(node: fx.Node) -> fx.Node:
    """What `node` is a view of, at the end of a chain of views."""
    while is_view(node) and isinstance(node.args[0], fx.Node):
        node = node.args[0]
    return node


def replayed(node: fx.Node, others: Mapping[fx.Node, fx.Node]) -> fx.Node:
    """`node`, or what is in its place among `others`; of a view of one of those, the same view of the other, made at the end
    of the graph."""
    chain: list[fx.Node] = []
    current = node
    while current not in others:
        if not is_view(current) or not isinstance(current.args[0], fx.Node):
            return node
        chain.append(current)
        current = current.args[0]
    made = {current: others[current]}
    for view in reversed(chain):
        with node.graph.inserting_before(node.graph.output_node()):
            made[view] = node.graph.node_copy(view, lambda n: made.get(n, n))
    return made[node]
