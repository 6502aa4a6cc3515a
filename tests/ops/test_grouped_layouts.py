"""One assertion of several layouts: each is checked, in every engine."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.common.input_engines import artifact_of, engines
from wrapper_ir.errors import WirError

GROUP = """symbol s0 : int backed [1, 64]
symbol u0 : int unbacked [0, 64]

extern "aten::nonzero(Tensor self) -> Tensor"

func @main(%x: f32[s0], %y: f32[s0]) {
  define s0 = size(%x, 0)
  %a = call aten::nonzero(%x) : i64[u0, 1]{1, u0}
  define u0 = size(%a, 0)
  assert_layout %x [s0] [1], %a [s0, 1] [1, s0], %y [s0] [1] align(4) "the group"
  drop %x
  drop %y
  return %a
}
"""


def test_each_layout_is_held(tmp_path: Path) -> None:
    """The second one, whose size depends on data; the first and third are checked as inputs."""
    for name, run in engines(artifact_of(GROUP), tmp_path).items():
        assert len(run([torch.ones(4), torch.ones(4)])[0]) == 4, name
        with pytest.raises(WirError, match="WIR921"):
            run([torch.tensor([1.0, 0.0]), torch.ones(2)])
        with pytest.raises(WirError, match="WIR92"):
            run([torch.ones(4), torch.ones(5)])


def test_alignment_holds_for_each(tmp_path: Path) -> None:
    text = """func @main(%x: f32[4], %y: f32[4]) {
  assert_layout %x [4] [1], %y [4] [1] align(16)
  drop %y
  return %x
}
"""
    far = torch.zeros(5)[1:]
    for run in engines(artifact_of(text), tmp_path).values():
        run([torch.ones(4), torch.ones(4)])
        for args in ([far, torch.ones(4)], [torch.ones(4), far]):
            with pytest.raises(WirError, match="WIR921"):
                run(args)
