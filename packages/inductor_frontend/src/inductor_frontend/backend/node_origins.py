"""The nodes of Dynamo's graph that the nodes of a later graph come from, as torch notes in their metadata."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torch.fx import Graph


def dynamo_nodes(graph: Graph) -> dict[str, list[str]]:
    """By the name of each call, the names of the nodes of the first graph that torch notes for it."""
    found = {
        node.name: list(dict.fromkeys(_first(node.meta.get("from_node", ()))))
        for node in graph.nodes
        if node.op == "call_function"
    }
    return {name: nodes for name, nodes in found.items() if nodes}


def _first(sources: Any) -> Iterator[str]:  # Any: torch's NodeSource, which has no types
    waiting = list(sources)
    while waiting:
        source = waiting.pop()
        if source.from_node:
            waiting += source.from_node
        elif source.name:
            yield source.name
