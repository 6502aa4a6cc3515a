"""Operators that torch also provides as a plain function with the same arguments, which is faster to call.

A test calls every entry both ways. An entry is valid only if the function's argument parser selects the
overload that the schema names.
"""

from __future__ import annotations

from collections.abc import Mapping

PLAIN_FUNCTIONS: Mapping[str, str] = {
    "aten::_scaled_dot_product_efficient_attention": "_scaled_dot_product_efficient_attention",
    "aten::_scaled_dot_product_flash_attention_for_cpu": "_scaled_dot_product_flash_attention_for_cpu",
    "aten::addmm": "addmm",
    "aten::addmm.out": "addmm",
    "aten::baddbmm": "baddbmm",
    "aten::baddbmm.out": "baddbmm",
    "aten::bmm": "bmm",
    "aten::bmm.out": "bmm",
    "aten::convolution": "convolution",
    "aten::cumsum": "cumsum",
    "aten::mm": "mm",
    "aten::mm.out": "mm",
    "aten::native_layer_norm": "native_layer_norm",
    "aten::sort": "sort",
    "aten::topk": "topk",
}
"""Maps the name of an operator to the name of the function in `torch`."""
