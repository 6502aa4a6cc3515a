"""Origins of the nodes of a graph in Dynamo's graph, from the metadata that torch attaches to them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torch.fx import Graph


def dynamo_nodes(graph: Graph) -> dict[str, list[str]]:
    """Maps the name of each call to the names of its origin nodes in the first graph."""
    origins = {
        node.name: list(dict.fromkeys(_first(node.meta.get("from_node", ()))))
        for node in graph.nodes
        if node.op == "call_function"
    }
    return {name: nodes for name, nodes in origins.items() if nodes}


def _first(sources: Any) -> Iterator[str]:  # Any: torch's NodeSource, which has no types
    waiting = list(sources)
    while waiting:
        source = waiting.pop()
        if source.from_node:
            waiting += source.from_node
        elif source.name:
            yield source.name
