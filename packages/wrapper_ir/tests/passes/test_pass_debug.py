"""Kernels that shown values name stay, under the name that the program has for them."""

from __future__ import annotations

from wrapper_ir import check, parse_program
from wrapper_ir.ops import DebugValue
from wrapper_ir.passes.dead_ops import EliminateDeadOps

TEXT = """wir 0.3
target cpu

kernel cpp @k entry "k" (read f32* src) {{{
}}}
kernel cpp @other entry "k" (read f32* src) {{{
}}}

func @main(%x: f32[8]) {
  debug print before @k %x
  return
}
"""


def test_dead_kernels_without_the_named_one() -> None:
    program = EliminateDeadOps().run(parse_program(TEXT))
    assert [k.name for k in program.kernels] == ["k"]
    assert [op.kernel for op in program.main.body if isinstance(op, DebugValue)] == ["k"]
    assert check(program) == ()
