"""What may be done with symmetric memory: its ids are free again after their end, and slots of one memory go together."""

from __future__ import annotations

import pytest

from wrapper_ir import check, parse_program, print_program
from wrapper_ir.json_form import from_json, to_json

ONE_AFTER_THE_OTHER = """
func @main(%x: f32[16]) {
  %a = alloc_storage 64 symmetric("g", 3)
  %v = view %a : f32[16]
  copy %v, %x
  free %a
  %b = alloc_storage 64 symmetric("g", 3)
  %w = view %b : f32[16]
  copy %w, %x
  free %b
  call_subgraph @f()
  call_subgraph @f()
  return
}

func @f() {
  %c = alloc_storage 64 symmetric("g", 3)
  free %c
  return
}
"""
OTHER_IDS = """
func @main() {
  %a = alloc_storage 64 symmetric("g", 3)
  %b = alloc_storage 64 symmetric("g", 4)
  %c = alloc_storage 64 symmetric("h", 3)
  %d = alloc_storage 64
  free %a
  free %b
  free %c
  free %d
  return
}
"""
LENT = """
func @main(%x: f32[4]) {
  %p = alloc_storage 64 symmetric("g", 3) pool
  %a = slot %p : 16 symmetric("g", 3)
  %b = slot %p + 16 : 16 symmetric("g", 3)
  call_subgraph @f(%x, %a, %b)
  free %a
  free %b
  free %p
  return
}

func @f(%x: f32[4], %a: storage(16, symmetric("g", 3)), %b: storage(16, symmetric("g", 3))) {
  %v = view %a : f32[4]
  copy %v, %x
  %w = view %b : f32[4]
  copy %w, %v
  return
}
"""
REUSED = """
func @main(%x: f32[16]) {
  %a = alloc_storage 64 symmetric("g", 3)
  %v = view %a : f32[16]
  copy %v, %x
  %w = reuse %v : f32[4, 4]
  free %a
  %b = alloc_storage 64 symmetric("g", 3)
  free %b
  return
}
"""


@pytest.mark.parametrize("text", [ONE_AFTER_THE_OTHER, OTHER_IDS, LENT, REUSED])
def test_valid(text: str) -> None:
    program = parse_program(f"wir 0.2\ntarget cuda:0\n{text}")
    assert not check(program)
    assert parse_program(print_program(program)) == program
    assert from_json(to_json(program)) == program
