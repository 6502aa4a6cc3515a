"""Constant folding in graphs that write memory."""

from __future__ import annotations

from operator import attrgetter

import torch
from torch import Tensor, fx

from fx_converter.passes.calls import CallKind, is_tensor, kind_of
from fx_converter.passes.memory import Memory


def foldable(module: fx.GraphModule) -> frozenset[fx.Node]:
    """Returns the nodes whose values are equal in every call: attributes that no node of the graph may write,
    and functions of such nodes only. Functions that allocate, draw or have other effects, and nodes whose
    storage is returned, are excluded.

    Inputs may share memory with attributes: if an input is written, the set is empty. For torch's own pass:
    `split_const_subgraphs(module, skip_folding_node_fn=lambda node: node not in nodes)`.
    """
    memory = Memory(module.graph)
    nodes: set[fx.Node] = set()
    for node in module.graph.nodes:
        if memory.is_written(node) or memory.is_resized_or_set(node) or not is_tensor(node):
            continue
        if node.op == "get_attr":
            nodes.add(node)
        elif kind_of(node) in (CallKind.LAYOUT, CallKind.BYTES) and not memory.is_given(node):
            inputs = node.all_input_nodes
            if inputs and nodes.issuperset(inputs) and not node.is_impure():
                nodes.add(node)
    return frozenset(nodes)


def fold_constants(module: fx.GraphModule) -> bool:
    """Computes nodes whose values are equal in every call, from the module's current attributes, and stores
    the results in buffers. Returns whether anything changed. Folded values do not follow attributes that are
    replaced later."""
    nodes = foldable(module)
    values: dict[fx.Node, Tensor] = {}
    computed: set[fx.Node] = set()
    with torch.no_grad():
        for node in module.graph.nodes:
            if node in nodes:
                values[node] = _value(node, values, module)
                if kind_of(node) is CallKind.BYTES or computed.intersection(node.all_input_nodes):
                    computed.add(node)
    results = [node for node in computed if any(user not in computed for user in node.users)]
    for node in sorted(results):
        _keep(node, values[node], module)
    if results:
        module.graph.eliminate_dead_code()
        module.recompile()
    return bool(results)


def _value(node: fx.Node, values: dict[fx.Node, Tensor], module: fx.GraphModule) -> Tensor:
    value: Tensor
    if callable(node.target):
        args, kwargs = fx.node.map_arg((node.args, node.kwargs), values.__getitem__)
        value = node.target(*args, **kwargs)
    else:
        value = attrgetter(node.target)(module)
    return value


def _keep(node: fx.Node, value: Tensor, module: fx.GraphModule) -> None:
    """Replaces a node by a buffer."""
    number = 0
    while hasattr(module, f"folded_{number}"):
        number += 1
    module.register_buffer(f"folded_{number}", value)
    with module.graph.inserting_before(node):
        buffer = module.graph.get_attr(f"folded_{number}")
    buffer.meta = dict(node.meta)
    node.replace_all_uses_with(buffer)
    module.graph.erase_node(node)
