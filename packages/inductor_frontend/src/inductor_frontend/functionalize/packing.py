"""Packs weights for the machine that captures, by torch's freezing of the captured graph."""

from __future__ import annotations

from collections.abc import Mapping

from torch._inductor.constant_folding import replace_node_with_constant
from torch._inductor.freezing import convert_conv_weights_to_channels_last, freeze
from torch._inductor.graph import GraphLowering
from torch.fx import GraphModule

from inductor_frontend.constants import ConstantRole
from inductor_frontend.errors import torch_step


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
