"""Matmuls that accumulate in place: every engine equals torch with two storages, bit for bit."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor

from tests.ops.debug_engines import engines
from wrapper_ir import parse_program, print_program
from wrapper_ir.artifact import bare_artifact
from wrapper_ir_passes import run_pipeline
from wrapper_ir_passes.cleanup.derive_frees import derive_frees

_TEXT = """wir 0.5
target cpu

extern "aten::mul.out(Tensor self, Tensor other, *, Tensor(a!) out) -> Tensor(a!)"
extern "aten::{name}.out(Tensor self, Tensor {factors}1, Tensor {factors}2, *, Scalar beta=1, Scalar alpha=1, Tensor(a!) out) -> Tensor(a!)"

func @main(%x: f32[{shape}], %y: f32[{shape}]) {{
  %a = alloc f32[{shape}]
  call aten::mul.out(%x, %y, out=%a)
  %b = alloc f32[{shape}]
  call aten::{name}.out(%a, %x, %y, beta=0.5, alpha=2, out=%b)
  return %b
}}
"""


@pytest.mark.parametrize(
    ("name", "factors", "sizes"), [("addmm", "mat", (33, 33)), ("baddbmm", "batch", (3, 17, 17))]
)
def test_every_engine(name: str, factors: str, sizes: tuple[int, ...], tmp_path: Path) -> None:
    text = _TEXT.format(name=name, factors=factors, shape=", ".join(map(str, sizes)))
    program = run_pipeline(derive_frees(parse_program(text)), "reuse-in-place")
    assert print_program(program).count(" = alloc ") == 1
    x, y = torch.randn(sizes), torch.randn(sizes)
    want: Tensor = getattr(torch, name)(x * y, x, y, beta=0.5, alpha=2)
    for engine, call in engines(bare_artifact(program), tmp_path, cpp=name == "addmm").items():
        (found,) = call(x, y)
        torch.testing.assert_close(found, want, rtol=0, atol=0, msg=engine)
