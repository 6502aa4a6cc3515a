"""Inputs that share a storage, of which one is resized: refused while the other is in use, in every engine."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor

from tests.common.input_engines import artifact_of, engines
from wrapper_ir.errors import ExecutionError

RESIZED = """extern "aten::neg(Tensor self) -> Tensor"

func @main(%x: f32[8], %y: f32[4], %z: f32[4]) {
  %n = call aten::neg(%y) : f32[4]
  resize_storage %x, 0
  resize_storage %x, 32
  %m = call aten::neg(%z) : f32[4]
  drop %z
  return %n, %m
}
"""


def in_one_storage(*which: int) -> list[Tensor]:
    """Returns the inputs of `RESIZED`; those in `which` share the storage of the first one."""
    whole = torch.arange(64.0)
    parts = [whole[:8], whole[48:52], whole[60:]]
    return [p if n in (0, *which) else p.clone() for n, p in enumerate(parts)]


def test_no_input_in_use_lies_in_a_storage_that_is_resized(tmp_path: Path) -> None:
    """Afterwards it would be outside of its memory. One whose last use is earlier may share the storage."""
    for name, run in engines(artifact_of(RESIZED), tmp_path).items():
        for fine in ([], [1]):
            args = in_one_storage(*fine)
            want = [-args[1], -args[2]]
            assert all(map(torch.equal, run(args), want)), name
        for refused in ([2], [1, 2]):
            with pytest.raises(
                ExecutionError, match="x: its storage is resized, and argument z lies in it"
            ) as caught:
                run(in_one_storage(*refused))
            assert caught.value.code == "WIR931", name
