"""Graphs nested in a graph: branches, loop bodies, regions."""

from __future__ import annotations

from collections.abc import Iterator

from torch import fx
from torch.nn import Module


def graph_modules(root: Module) -> Iterator[fx.GraphModule]:
    """Yields the graph `root`, and the graphs nested in it at any depth."""
    return (module for module in root.modules() if isinstance(module, fx.GraphModule))
