"""Operators that torch also offers as a plain function with the same arguments, which is faster to call.

A test calls every entry both ways. An entry is right only where the function's own argument parser picks the very
overload that the schema names.
"""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["FAST_CALLS"]

FAST_CALLS: Mapping[str, str] = {
    "aten::_scaled_dot_product_efficient_attention": "torch._scaled_dot_product_efficient_attention",
    "aten::_scaled_dot_product_flash_attention_for_cpu": "torch._scaled_dot_product_flash_attention_for_cpu",
    "aten::addmm": "torch.addmm",
    "aten::addmm.out": "torch.addmm",
    "aten::baddbmm": "torch.baddbmm",
    "aten::baddbmm.out": "torch.baddbmm",
    "aten::bmm": "torch.bmm",
    "aten::bmm.out": "torch.bmm",
    "aten::convolution": "torch.convolution",
    "aten::cumsum": "torch.cumsum",
    "aten::mm": "torch.mm",
    "aten::mm.out": "torch.mm",
    "aten::native_layer_norm": "torch.native_layer_norm",
    "aten::sort": "torch.sort",
    "aten::topk": "torch.topk",
}
"""The function by the operator's name."""
