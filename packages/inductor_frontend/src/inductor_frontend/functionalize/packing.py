"""Lays out weights: convolutions channels-last, others for this machine by torch's freezing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

import torch
from torch._inductor.constant_folding import replace_node_with_constant
from torch._inductor.freezing import convert_conv_weights_to_channels_last, freeze
from torch._inductor.graph import GraphLowering
from torch.fx import GraphModule, Node

from inductor_frontend.constants import ConstantRole
from inductor_frontend.errors import torch_step
from inductor_frontend.lazy_bits import is_lazy


def pack_weights(gm: GraphModule, roles: Mapping[str, ConstantRole]) -> GraphModule:
    """Converts weights that are never written to literals of the graph, and folds operators on literals.

    torch replaces the remaining weights by the packed formats of its libraries, which only oneDNN on this
    machine can read. Raises CaptureError FE104.
    """
    for node in gm.graph.find_nodes(op="placeholder"):
        role = roles.get(node.name)
        if role is not None and not role.mutable:
            replace_node_with_constant(gm, node, role.data)
    placeholders = gm.graph.find_nodes(op="placeholder")
    names = [node.name for node in placeholders]
    inputs = [node.meta["val"] for node in placeholders]
    with torch_step("FE104", "torch cannot pack the weights"):
        if GraphLowering.decide_layout_opt(gm, is_inference=True):
            convert_conv_weights_to_channels_last(gm)
        packed, _ = freeze(gm, gm, inputs)
    # Torch copies the graph and renames some nodes.
    for node, name in zip(packed.graph.find_nodes(op="placeholder"), names, strict=True):
        node.name = name
    return packed


def channels_last_weights(gm: GraphModule, roles: Mapping[str, ConstantRole]) -> Mapping[str, ConstantRole]:
    """Returns the constants, with copies of the weights that a kernel would convert in each call.

    Weights that share memory with another constant, or that the graph also uses otherwise, keep their layout.
    """
    if not GraphLowering.decide_layout_opt(gm, is_inference=True):
        return roles
    users = Counter(_storage(role.data) for role in roles.values())
    laid_out = {}
    for node in gm.graph.find_nodes(op="placeholder"):
        role = roles.get(node.name)
        if role is not None and _is_weight(node, role) and users[_storage(role.data)] == 1:
            last = torch.channels_last
            node.meta["val"] = node.meta["val"].contiguous(memory_format=last)
            laid_out[node.name] = replace(role, data=role.data.contiguous(memory_format=last))
    return {**roles, **laid_out}


def _storage(tensor: torch.Tensor) -> object:
    return tensor.untyped_storage()._cdata if torch._C._has_storage(tensor) else id(tensor)


def _is_weight(node: Node, role: ConstantRole) -> bool:
    """Returns whether a constant is only read, by two-dimensional convolutions on a CPU as their weight."""
    tensors = (role.data, node.meta["val"])
    if role.mutable or any(t.layout is not torch.strided or t.device.type != "cpu" for t in tensors):
        return False
    reads = [(u.target, u.args.index(node)) for u in node.users if node in u.args]
    are_weights = all(read == (torch.ops.aten.convolution.default, 1) for read in reads)
    return len(reads) == len(node.users) and are_weights and role.data.dim() == 4 and not is_lazy(role.data)
