"""Values shown around kernels: what Python modules and graph modules print."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import fx_converter
import py_wrapper
from wrapper_ir import parse_program
from wrapper_ir.artifact import bare_artifact

TEXT = """wir 0.3
target cpu

kernel cpp @"model.relu" entry "relu" (readwrite f32* x) {{{
extern "C" void relu(float* x) { if (x[0] < 0) x[0] = 0; }
}}}

func @main(%x: f32[1], %n: int) {
  debug print before @"model.relu" %x, %n "layer 1"
  debug names after @"model.relu" %x
  return %n
}
"""


# Any: each emitter makes callables of its own
@pytest.mark.parametrize("make", [py_wrapper.compile, fx_converter.convert], ids=["python", "fx"])
def test_printed(make: Callable[..., Any], capsys: pytest.CaptureFixture[str]) -> None:
    assert make(bare_artifact(parse_program(TEXT)))(torch.tensor([-1.0]), 3) == (3,)
    assert capsys.readouterr().out.splitlines() == [
        "layer 1 before model.relu x f32[1] strides [1]",
        "tensor([-1.])",
        "layer 1 before model.relu n",
        "3",
        "after model.relu x f32[1] strides [1]",
    ]
