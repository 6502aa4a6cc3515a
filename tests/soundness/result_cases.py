"""Programs whose operators return something else than they declare, and whose inputs have too little memory."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

NAMESPACE = "operator_results"


def _short(x: Tensor) -> Tensor:
    """A result whose storage has been cut."""
    made = x.clone()
    made.untyped_storage().resize_(16)
    return made


def _negated(x: Tensor) -> Tensor:
    """A result whose memory holds `x`."""
    return torch._neg_view(x.clone())


def register() -> Any:  # Any: a library of torch's, whose operators end with it
    """Registers the operators of these programs."""
    made: Any = torch.library.Library(NAMESPACE, "FRAGMENT")  # type: ignore[no-untyped-call]  # torch's own
    for name, function in (
        ("short", _short),
        ("negated", _negated),
        ("meta", lambda x: x.to("meta")),
        ("same", torch.clone),
        ("handed", lambda x: x),
        ("viewed", lambda x: x.view(8)),
    ):
        made.define(f"{name}(Tensor x) -> Tensor")
        made.impl(name, function, "CPU")
    return made


PROGRAM = """extern "SCHEMA"

func @main(%x: f32[8]) {
  %y = call TARGET : TYPE
  drop %x
  return %y
}
"""
RESULTS = {
    "dtype": ("aten::neg(Tensor self) -> Tensor", "aten::neg(%x)", "f64[8]"),
    "sizes": ("aten::neg(Tensor self) -> Tensor", "aten::neg(%x)", "f32[9]"),
    "layout": (
        "aten::_to_sparse(Tensor self, *, Layout? layout=None, SymInt[2]? blocksize=None, int? dense_dim=None) -> Tensor",
        "aten::_to_sparse(%x)",
        "f32[8]",
    ),
    "opaque": (
        "aten::to_mkldnn(Tensor self, ScalarType? dtype=None) -> Tensor",
        "aten::to_mkldnn(%x)",
        "f32[8]",
    ),
    "storage": (f"{NAMESPACE}::short(Tensor x) -> Tensor", f"{NAMESPACE}::short(%x)", "f32[8]"),
    "bits": (f"{NAMESPACE}::negated(Tensor x) -> Tensor", f"{NAMESPACE}::negated(%x)", "f32[8]"),
    "memory": (f"{NAMESPACE}::handed(Tensor x) -> Tensor", f"{NAMESPACE}::handed(%x)", "f32[8]"),
    "view": (f"{NAMESPACE}::viewed(Tensor x) -> Tensor", f"{NAMESPACE}::viewed(%x)", "f32[8]"),
    "device": (f"{NAMESPACE}::meta(Tensor x) -> Tensor", f"{NAMESPACE}::meta(%x)", "f32[8]"),
}


def result_text(name: str) -> str:
    """The program of one of `RESULTS`."""
    schema, target, declared = RESULTS[name]
    return PROGRAM.replace("SCHEMA", schema).replace("TARGET", target).replace("TYPE", declared)


INPUT = """SYMBOL
extern "aten::neg(Tensor self) -> Tensor"

func @main(%x: f32[SIZE, 2], %unused: f32[8]) {
  DEFINE
  %v = view %x + 8 : f32[2]
  %y = call aten::neg(%v) : f32[2]
  drop %x
  drop %unused
  return %y
}
"""


def input_text(is_dynamic: bool) -> str:
    """A program that reads a part of its first input, of f32[4, 2], and none of its second."""
    words = (
        ("symbol s0 : int backed [2, 64]", "s0", "define s0 = size(%x, 0)") if is_dynamic else ("", "4", "")
    )
    return INPUT.replace("SYMBOL", words[0]).replace("SIZE", words[1]).replace("DEFINE", words[2])


SIZE, HEADS = 8, 2


def attention(query: Tensor, weights: bool) -> tuple[Any, ...]:
    """A layer of attention, whose second result is None without weights."""
    made = [torch.full(shape, 0.1) for shape in ((3 * SIZE, SIZE), (3 * SIZE,), (SIZE, SIZE), (SIZE,))]
    operator: Any = torch._native_multi_head_attention  # the stubs know other arguments
    found = operator(query, query, query, SIZE, HEADS, *made, None, need_weights=weights)
    return found[0] + 1, found[1]
