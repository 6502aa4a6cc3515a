"""Which tensors of a graph may share storage, and which storages are written, given away or replaced."""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

from fx_converter import targets
from fx_converter.passes.calls import shares_with, written

_RESTLESS: frozenset[Any] = frozenset(  # Any: targets of nodes
    {targets.resize_storage, targets.set_like, targets.set_storage, torch.ops.aten.set_.source_Tensor}
)


class Memory:
    """Groups of nodes that may share storage. Inputs and attributes are one group: nobody knows what a caller passes."""

    def __init__(self, graph: fx.Graph) -> None:
        self._parent: dict[fx.Node | None, fx.Node | None] = {None: None}
        for node in graph.nodes:
            self._parent[node] = node
            if node.op in ("placeholder", "get_attr"):
                self._join(node, None)
            for other in shares_with(node):
                self._join(node, other)
            if node.target in _RESTLESS:
                for other in node.all_input_nodes:
                    self._join(node, other)
        self._written = {self.group(x) for node in graph.nodes for x in self.writes(node)}
        self._resized_or_set = {
            self.group(x) for node in graph.nodes if node.target in _RESTLESS for x in node.all_input_nodes
        }
        output = next(iter(reversed(graph.nodes)))
        self.returned = frozenset(output.all_input_nodes)
        """The nodes that the caller gets."""
        self._given = {self.group(x) for x in self.returned}

    def _join(self, a: fx.Node | None, b: fx.Node | None) -> None:
        self._parent[self.group(a)] = self.group(b)

    def group(self, node: fx.Node | None) -> fx.Node | None:
        """The same for all nodes that may share storage; that of None has inputs and attributes."""
        while self._parent[node] is not node:
            self._parent[node] = self._parent[self._parent[node]]
            node = self._parent[node]
        return node

    def writes(self, node: fx.Node) -> list[fx.Node | None]:
        """What a node may write. A submodule may write the attributes that it shares with the module."""
        found: list[fx.Node | None] = [*written(node)]
        calls_module = node.op == "call_module" or any(
            isinstance(x, fx.Node) and x.op == "get_attr" and x.meta.get("val") is None for x in found
        )
        return [*found, None] if calls_module else found

    def is_written(self, node: fx.Node) -> bool:
        """Whether anything in the graph may write what the node's tensor holds."""
        return self.group(node) in self._written

    def is_resized_or_set(self, node: fx.Node) -> bool:
        """Whether anything in the graph gives the node's tensor another storage, or its storage another size."""
        return self.group(node) in self._resized_or_set

    def is_given(self, node: fx.Node) -> bool:
        """Whether the caller gets the node's storage."""
        return self.group(node) in self._given
