"""Calls of operators that passes write into a graph."""

from __future__ import annotations

from torch._ops import OpOverload
from torch.fx import Node
from torch.fx.node import Argument, map_arg

_SOURCES = ("stack_trace", "nn_module_stack", "source_fn_stack", "from_node")
"""Metadata of a node's origin, which applies to its replacement too."""


def call_like(origin: Node, target: OpOverload, *args: Argument) -> Node:
    """Inserts a call with the provenance of a node, and a fake value."""
    call = origin.graph.call_function(target, args)
    call.meta = {key: value for key, value in origin.meta.items() if key in _SOURCES}
    with origin.meta["val"].fake_mode:
        call.meta["val"] = target(*map_arg(args, lambda x: x.meta["val"]))
    return call
