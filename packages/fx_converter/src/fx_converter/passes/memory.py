"""Aliasing in a graph: tensors that may share storage; storages that are written, returned or replaced."""

from __future__ import annotations

import torch
from torch import fx

from fx_converter import targets
from fx_converter.passes.calls import shares_with, written

_REBINDERS: frozenset[object] = frozenset(
    {targets.resize_storage, targets.set_like, targets.set_storage, torch.ops.aten.set_.source_Tensor}
)


class Memory:
    """Groups of nodes that may share storage. Inputs and attributes are one group, since a caller may pass
    any tensor."""

    def __init__(self, graph: fx.Graph) -> None:
        self._parent: dict[fx.Node | None, fx.Node | None] = {None: None}
        for node in graph.nodes:
            self._parent[node] = node
            if node.op in ("placeholder", "get_attr"):
                self._join(node, None)
            for other in shares_with(node):
                self._join(node, other)
            if node.target in _REBINDERS:
                for other in node.all_input_nodes:
                    self._join(node, other)
        self._written = {self.group(x) for node in graph.nodes for x in self.writes(node)}
        self._resized_or_set = {
            self.group(x) for node in graph.nodes if node.target in _REBINDERS for x in node.all_input_nodes
        }
        output = next(iter(reversed(graph.nodes)))
        self.returned = frozenset(output.all_input_nodes)
        """The nodes that are returned."""
        self._returned_groups = {self.group(x) for x in self.returned}

    def _join(self, a: fx.Node | None, b: fx.Node | None) -> None:
        self._parent[self.group(a)] = self.group(b)

    def group(self, node: fx.Node | None) -> fx.Node | None:
        """Returns the representative of the nodes that may share storage with this one; None represents
        inputs and attributes."""
        while self._parent[node] is not node:
            self._parent[node] = self._parent[self._parent[node]]
            node = self._parent[node]
        return node

    def writes(self, node: fx.Node) -> list[fx.Node | None]:
        """Returns the nodes that a node may write. A submodule may write the attributes that it shares with
        the module."""
        nodes: list[fx.Node | None] = [*written(node)]
        calls_module = node.op == "call_module" or any(
            isinstance(x, fx.Node) and x.op == "get_attr" and x.meta.get("val") is None for x in nodes
        )
        return [*nodes, None] if calls_module else nodes

    def is_written(self, node: fx.Node) -> bool:
        """Returns whether a node of the graph may write the storage of the node's tensor."""
        return self.group(node) in self._written

    def is_resized_or_set(self, node: fx.Node) -> bool:
        """Returns whether a node of the graph replaces or resizes the storage of the node's tensor."""
        return self.group(node) in self._resized_or_set

    def is_given(self, node: fx.Node) -> bool:
        """Returns whether the node's storage is returned to the caller."""
        return self.group(node) in self._returned_groups
