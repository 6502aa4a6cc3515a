"""Graphs nested in a graph: branches, loop bodies, regions."""

from __future__ import annotations

from collections.abc import Iterator

from torch import fx


def graph_modules(root: object) -> Iterator[fx.GraphModule]:
    """Yields the graphs of a module: itself, and those nested in it at any depth; nothing for other
    objects."""
    if isinstance(root, fx.GraphModule):
        yield from (module for module in root.modules() if isinstance(module, fx.GraphModule))


def nested_nodes(root: object) -> Iterator[fx.Node]:
    """Yields the nodes of all `graph_modules` of a module."""
    return (node for module in graph_modules(root) for node in module.graph.nodes)
