"""Emitted functions within functions that torch.compile compiles: Dynamo calls them between two graphs."""

from __future__ import annotations

import torch

import py_wrapper
from wrapper_ir import parse_program
from wrapper_ir.artifact import bare_artifact

TEXT = """wir 0.5
target cpu

extern "aten::neg(Tensor self) -> Tensor"

func @main(%x: f32[4]) {
  %y = call aten::neg(%x) : f32[4]
  drop %x
  return %y
}
"""


def test_a_compiled_function_calls_an_emitted_one() -> None:
    emitted = py_wrapper.compile(bare_artifact(parse_program(TEXT)))
    x = torch.arange(4.0)
    compiled = torch.compile(lambda x: emitted(x + 1)[0] * 2, backend="eager")
    torch.testing.assert_close(compiled(x), -(x + 1) * 2)
