"""Ordering of a model's streams in a functional graph."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import fx

from inductor_frontend.torch_patches._compat import ORDERS_STREAMS
from inductor_frontend.torch_patches.replaced import replaced
from inductor_frontend.torch_patches.table import STREAM_ORDER

# Any in this file: nodes, whose arguments are untyped.


@contextmanager
def writing_to_inputs() -> Iterator[None]:
    """Keeps the copies to inputs at the end of a graph valid when torch orders streams.

    torch passes tensors through the nodes that order streams. Copies must still target the input itself, or
    torch refuses the graph.
    """
    if not ORDERS_STREAMS:
        yield
        return
    order = STREAM_ORDER.own()

    def ordered(gm: fx.GraphModule) -> None:
        order(gm)
        for node in gm.graph.find_nodes(op="call_function", target=torch.ops.aten.copy_.default):
            node.update_arg(0, _source(node.args[0]))
        gm.recompile()

    with replaced(STREAM_ORDER.by(wrap_all_sync_nodes_with_control_deps=ordered)):
        yield


def _source(node: Any) -> object:
    """Returns the value of a node through nodes that order streams.

    Result `i` of such a node is its operand `i + 1`: the first operands are its dependencies and its callee.
    """
    from torch._inductor.fx_passes.control_dependencies import control_deps

    while node.target is operator.getitem and node.args[0].target is control_deps:
        ordered, index = node.args
        node = ordered.args[index + 1]
    return node
