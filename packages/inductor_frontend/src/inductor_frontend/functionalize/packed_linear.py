"""Joins calls that pack the weights of quantized linear layers with the calls that use them.

The result of the packing call is a handle, but torch reports the sizes of the weights for it. torch.compile
with Inductor fails its size check, and a kernel that reads the handle would read outside its memory. The
operator that packs and multiplies in one call has the same results.
"""

from __future__ import annotations

import torch
from torch import fx

from inductor_frontend.errors import ConversionError, at_node

_QUANTISED = torch.ops._quantized
_PACK = _QUANTISED._wrapped_linear_prepack.default
_PACKED = _QUANTISED._wrapped_quantized_linear_prepacked.default
PACKS_AND_MULTIPLIES = _QUANTISED.wrapped_quantized_linear.default
"""Inductor decomposes this operator into the other two, so `RecordingGraph` calls it as a fallback."""


def join_packed_linear(gm: fx.GraphModule) -> None:
    """Packs weights in the call that uses them. Raises ConversionError FE301 if another operator uses
    them."""
    packs = gm.graph.find_nodes(op="call_function", target=_PACK)
    for pack in packs:
        for user in list(pack.users):
            if user.target is not _PACKED or user.args[3] is not pack:
                raise ConversionError(
                    "FE301",
                    f"packed weights leave {_PACK}{at_node(pack.name, str(user.target))}",
                    hint="call torch.ops._quantized.wrapped_quantized_linear, which packs and multiplies",
                )
            x, scale, zero_point, _, *rest = user.args
            user.target, user.args = PACKS_AND_MULTIPLIES, (x, scale, zero_point, *pack.args, *rest)
        gm.graph.erase_node(pack)
    if packs:
        gm.recompile()
