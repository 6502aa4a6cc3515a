"""A program for a device that need not be there."""

from __future__ import annotations

import wrapper_ir
from tests.triton.triton_program import PROGRAM
from wrapper_ir.artifact import Artifact, bare_artifact

MAIN = """func @main(%x: f32[s0] @cuda:0, %y: f32[s0] @cuda:0) {
  define s0 = size(%x, 0)
  %out = alloc f32[s0] @cuda:0
  launch @add_relu(%x, %y, %out, s0) grid(7)
  launch @gelu_(%out, s0)
  return %out
}
"""


def for_a_gpu(program: str = PROGRAM) -> Artifact:
    """The same kernels for a device that need not be there."""
    head = program[: program.index("func @main")].replace("target cpu", 'target cuda:0 arch "sm_90"')
    return bare_artifact(wrapper_ir.parse_program(head + MAIN))
