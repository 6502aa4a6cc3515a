"""What is the same in every call, computed beforehand."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, fx

from fx_converter.passes.calls import CallKind, is_tensor, kind_of
from fx_converter.passes.memory import Memory


def foldable(module: fx.GraphModule) -> frozenset[fx.Node]:
    """The nodes whose values are the same in every call: attributes that nothing in the graph may write, and functions of
    such alone, without those that allocate, draw or have other effects, and those whose storage the caller gets.

    Inputs may share memory with attributes: where one is written, there are none. For torch's own pass:
    `split_const_subgraphs(module, skip_folding_node_fn=lambda node: node not in found)`.
    """
    memory = Memory(module.graph)
    found: set[fx.Node] = set()
    for node in module.graph.nodes:
        if memory.is_written(node) or memory.is_resized_or_set(node) or not is_tensor(node):
            continue
        if node.op == "get_attr":
            found.add(node)
        elif kind_of(node) in (CallKind.LAYOUT, CallKind.BYTES) and not memory.is_given(node):
            inputs = node.all_input_nodes
            if inputs and found.issuperset(inputs) and not node.is_impure():
                found.add(node)
    return frozenset(found)


def fold_constants(module: fx.GraphModule) -> bool:
    """Computes what is the same in every call now, from the module's attributes as they are, and keeps it in buffers;
    returns whether anything changed. Attributes that are replaced later are not seen by what was computed."""
    found = foldable(module)
    values: dict[fx.Node, Any] = {}  # Any: attributes; tensors here
    computed: set[fx.Node] = set()
    with torch.no_grad():
        for node in module.graph.nodes:
            if node in found:
                values[node] = _value(node, values, module)
                if kind_of(node) is CallKind.BYTES or computed.intersection(node.all_input_nodes):
                    computed.add(node)
    used = [node for node in computed if any(user not in computed for user in node.users)]
    for node in sorted(used):
        _keep(node, values[node], module)
    if used:
        module.graph.eliminate_dead_code()
        module.recompile()
    return bool(used)


def _value(node: fx.Node, values: dict[fx.Node, Any], module: fx.GraphModule) -> Any:
    target: Any = node.target
    if node.op == "get_attr":
        held: Any = module
        for part in target.split("."):
            held = getattr(held, part)  # attributes are found by name
        return held
    args, kwargs = fx.node.map_arg((node.args, node.kwargs), values.__getitem__)
    return target(*args, **kwargs)


def _keep(node: fx.Node, value: Tensor, module: fx.GraphModule) -> None:
    """Puts a buffer where the node was."""
    number = 0
    while hasattr(module, f"folded_{number}"):
        number += 1
    module.register_buffer(f"folded_{number}", value)
    with module.graph.inserting_before(node):
        made = module.graph.get_attr(f"folded_{number}")
    made.meta = dict(node.meta)
    node.replace_all_uses_with(made)
    module.graph.erase_node(node)
