"""Fuses layers of a graph with what surrounds them."""

from __future__ import annotations

from torch.fx import GraphModule

from wrapper_ir_torch.fused_convolutions import fuse_convolutions
from wrapper_ir_torch.fused_int8_layers import fuse_int8_layers


def fuse_layers(gm: GraphModule, convolutions: bool, int8_layers: bool) -> None:
    """Fuses the chosen layers of a graph on a CPU."""
    if convolutions:
        fuse_convolutions(gm)
    if int8_layers:
        fuse_int8_layers(gm)
