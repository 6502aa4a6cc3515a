"""Collectives on one process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

import py_wrapper
from py_wrapper import TORCH_MACHINE
from wrapper_ir import parse_program
from wrapper_ir.artifact import bare_artifact
from wrapper_ir.interp import run

PROGRAM = parse_program("""wir 0.1
target cpu
extern "_c10d_functional::all_reduce(Tensor input, str reduce_op, str group_name) -> Tensor" tags(collective)
func @main(%x: f32[4]) {
  %h = collective _c10d_functional::all_reduce(%x, "sum", "0") group("0") : f32[4]
  %y = wait %h : f32[4]
  return %y
}
""")


@pytest.fixture
def process_group(tmp_path: Path) -> Iterator[None]:
    if not torch.distributed.is_available():
        pytest.skip("this torch has no distributed package")
    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    yield
    torch.distributed.destroy_process_group()


@pytest.mark.usefixtures("process_group")
def test_all_reduce() -> None:
    x = torch.randn(4)
    (a,) = run(PROGRAM, [x], TORCH_MACHINE)
    (b,) = py_wrapper.compile(bare_artifact(PROGRAM)).boxed([x])
    torch.testing.assert_close(a, x)
    torch.testing.assert_close(b, x)
