"""Arguments that are tensors by the schema of a GPU's attention, but None in calls."""

from __future__ import annotations

import pytest
import torch

from inductor_frontend.operators.schemas import extern_def
from wrapper_ir import check, ir, parse_program
from wrapper_ir_torch import resolve

UNDEFINED = {
    "_scaled_dot_product_cudnn_attention_backward": {"attn_bias", "cum_seq_q", "cum_seq_k"},
    "_scaled_dot_product_efficient_attention_backward": {"attn_bias"},
    "_scaled_dot_product_flash_attention_backward": {"cum_seq_q", "cum_seq_k"},
    "_scaled_dot_product_fused_attention_overrideable_backward": {"attn_bias", "cum_seq_q", "cum_seq_k"},
}


@pytest.mark.parametrize("name", UNDEFINED)
def test_a_declaration_says_which_may_be_missing(name: str) -> None:
    extern = extern_def(getattr(torch.ops.aten, name).default)
    missing = {a.name for a in ir.parse_schema(extern.schema).args if a.type == "Tensor?"}
    assert missing == UNDEFINED[name]
    resolve(extern)  # and is still installed


def test_a_gradient_without_them_is_valid() -> None:
    name = "_scaled_dot_product_flash_attention_backward"
    schema = extern_def(getattr(torch.ops.aten, name).default).schema
    tensors = ", ".join(["%x"] * 6)
    program = parse_program(
        f"""wir 0.5
target cuda:0

extern "{schema}"

func @main(%x: f32[1, 2, 8, 4]) {{
  %r = call aten::{name}({tensors}, none, none, 8, 8, 0.0, true, %x, %x) : results
  %g = unpack %r[0] : f32[1, 2, 8, 4]
  return %g
}}
"""
    )
    assert not [d for d in check(program) if d.code == "WIR075"]
