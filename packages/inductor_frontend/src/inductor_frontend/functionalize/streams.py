"""What orders the streams of a model, in a functional graph."""

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
    """While the context is active, where torch hands tensors through what orders streams, what is written to an input at the end
    of a graph is still written to that input: torch itself refuses its graph otherwise."""
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


def _source(node: Any) -> Any:
    """What a node is, looked at through what orders streams: each of their results is the operand that stands one place
    after it, after what they wait for and what they run."""
    from torch._inductor.fx_passes.control_dependencies import control_deps

    while node.target is operator.getitem and node.args[0].target is control_deps:
        ordered, index = node.args
        node = ordered.args[index + 1]
    return node
