"""Valid uses of memory while a collective is in flight; invalid uses are among the invalid programs."""

from __future__ import annotations

import pytest

from wrapper_ir import check, parse_program, print_program
from wrapper_ir_passes.cleanup.derive_frees import derive_frees

HEAD = """wir 0.5
target cpu

extern "lib::sum(Tensor x, str group_name) -> Tensor" tags(collective)
extern "lib::sum_(Tensor(a!) x, str group_name) -> Tensor(a!)" tags(collective)
extern "lib::gather(Tensor[] x, str group_name) -> Tensor[]" tags(collective)
extern "lib::gather_out(Tensor x, str group_name, *, Tensor(a!) out) -> Tensor(a!)" tags(collective)
kernel cpp @k entry "k" (read f32* src, write f32* dst) {{{
}}}

func @main(%x: f32[8], %z: f32[8]) {
"""

VALID = {
    "an argument is read": """
  %h = collective lib::sum(%x, "0") group("0") : f32[8]
  assert_finite %x
  %y = wait %h : f32[8]
  return %y""",
    "a layout is asserted, a view made": """
  %h = collective lib::sum(%x, "0") group("0") : f32[8]
  assert_layout %h [8] [1]
  %v = view %h + 16 : f32[4]
  %y = wait %h : f32[8]
  assert_finite %v
  return %y""",
    "the argument, once it was waited for in place": """
  %h = collective lib::sum_(%x, "0") group("0") : f32[8]
  %y = wait %h : f32[8]
  assert_finite %x
  assert_finite %y
  return""",
    "the other half of a buffer, of which one is summed in place": """
  %a = view %x : f32[4]
  %b = view %x + 16 : f32[4]
  %h = collective lib::sum_(%a, "0") group("0") : f32[4]
  launch @k(%z, %b) extents(16, 16)
  %y = wait %h : f32[4]
  return""",
    "two halves in flight": """
  %a = view %x : f32[4]
  %b = view %x + 16 : f32[4]
  %g = collective lib::sum_(%a, "0") group("0") : f32[4]
  %h = collective lib::sum_(%b, "0") group("0") : f32[4]
  %c = wait %g : f32[4]
  assert_finite %c
  %d = wait %h : f32[4]
  return""",
    "an argument whose own result is there": """
  %g, %h = collective lib::gather([%x, %z], "0") group("0") : f32[16], f32[16]
  %a = wait %g : f32[16]
  launch @k(%z, %x)
  %b = wait %h : f32[16]
  return %a, %b""",
    "a process's own part of what it gathers": """
  %v = view %x + 16 : f32[4]
  %h = collective lib::gather_out(%v, "0", out=%x) group("0") : f32[8]
  %y = wait %h : f32[8]
  return""",
}


@pytest.mark.parametrize("case", VALID, ids=lambda c: c.replace(" ", "-").replace(",", ""))
def test_valid(case: str) -> None:
    program = derive_frees(parse_program(HEAD + VALID[case].lstrip("\n") + "\n}\n"))
    assert check(program) == (), "\n".join(map(str, check(program)))
    assert parse_program(print_program(program)) == program
