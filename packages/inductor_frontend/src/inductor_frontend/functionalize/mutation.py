"""Writes mutations of a functional graph as copies at its end, and rebases outputs that alias mutated
inputs."""

from __future__ import annotations

import torch
from torch import fx

from inductor_frontend.functionalize.views import replayed


class MutationWriter:
    """Writes new values into inputs before the graph's output.

    Outputs that are views of a new value become views of the input that contains it then: as in eager mode,
    they share memory with the input.
    """

    def __init__(self, graph: fx.Graph, output: fx.Node) -> None:
        self._graph = graph
        self._output = output
        self._copies: dict[fx.Node, fx.Node] = {}
        self._targets: dict[fx.Node, fx.Node] = {}

    def write(self, target: fx.Node, value: fx.Node) -> None:
        """Copies `value` to `target` at the end of the graph."""
        with self._graph.inserting_before(self._output):
            copy = self._graph.call_function(torch.ops.aten.copy_.default, (target, value))
        copy.meta = {k: v for k, v in value.meta.items() if k in ("stack_trace", "nn_module_stack")}
        copy.meta["val"] = target.meta["val"]
        self._copies[value] = copy
        self._targets[value] = target

    def target_of(self, value: fx.Node) -> fx.Node | None:
        """Returns the input that contains `value` at the end; None if no input does."""
        return self._targets.get(value)

    def rebased(self, value: fx.Node) -> fx.Node:
        """Returns `value`; if it is a view of a value that was written, the same view of the written
        input."""
        return replayed(value, self._copies)
