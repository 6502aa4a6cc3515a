"""Programs for the debugging commands, and a function that runs `wir`."""

from __future__ import annotations

from click.testing import CliRunner

from wrapper_ir_tools.cli.main import main

PROGRAM = """wir 0.5
target cpu
symbol s0 : int backed [2, 64] hint 4
extern "aten::log(Tensor self) -> Tensor"
extern "aten::neg(Tensor self) -> Tensor"
extern "aten::abs(Tensor self) -> Tensor"
extern "aten::rand_like(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor" tags(random)
extern "aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor"

func @main(%x: f32[s0, 2]) {
  define s0 = size(%x, 0)
  %a = call aten::abs(%x) : f32[s0, 2]
  %n = call aten::neg(%a) : f32[s0, 2]
  %r = call aten::rand_like(%n) : f32[s0, 2]
  %s = call aten::add.Tensor(%n, %r) : f32[s0, 2]
  %l = call aten::log(%s) : f32[s0, 2]
  free %a
  free %n
  free %r
  free %s
  return %l
}
"""
STEADY = """wir 0.5
target cpu
extern "aten::neg(Tensor self) -> Tensor"
func @main(%x: f32[4]) {
  %a = call aten::neg(%x) : f32[4]
  %b = call aten::neg(%a) : f32[4]
  free %a
  return %b
}
"""


def wir(*args: str, status: int = 0, stdin: str = "") -> str:
    """Returns the output of `wir` for these arguments; it must end with `status`."""
    done = CliRunner().invoke(main, args, input=stdin)
    assert done.exit_code == status, done.output
    return done.output
