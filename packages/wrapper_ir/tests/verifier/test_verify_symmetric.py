"""Valid uses of symmetric memory: ids are free after their storage ends, and slots of one memory may be lent together."""

from __future__ import annotations

import pytest

from wrapper_ir import check, parse_program, print_program
from wrapper_ir.json import from_json, to_json
from wrapper_ir.operators.symmetric import SYMMETRIC_ARGUMENTS, WAITING

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
ARGUMENTS = """
extern "symm_mem::one_shot_all_reduce_out(Tensor input, str reduce_op, str group_name, Tensor(a!) out) -> Tensor(a!)" tags(collective) symmetric(input)
extern "symm_mem::multimem_all_gather_out(Tensor input, str group_name, Tensor(a!) out) -> Tensor(a!)" tags(collective) symmetric(out)
extern "aten::relu_(Tensor(a!) self) -> Tensor(a!)"
extern "my::library(Tensor x) -> Tensor"
extern "aten::resize_(Tensor(a!) self, SymInt[] size, *, MemoryFormat? memory_format=None) -> Tensor(a!)"
mutable const %buffer : f32[16]

func @main(%x: f32[16], %given: f32[16]) {
  %a = alloc_storage 64 symmetric("g", 3)
  %v = view %a : f32[16]
  copy %v, %x
  %z = call aten::relu_(%v) : f32[16]
  drop %z
  %y = alloc f32[16]
  call symm_mem::one_shot_all_reduce_out(%v, "sum", "g", %y)
  %b = alloc_storage 128 symmetric("g", 4)
  %w = view %b : f32[32]
  call symm_mem::multimem_all_gather_out(%y, "g", out=%w)
  call symm_mem::one_shot_all_reduce_out(%given, "sum", "g", %y)
  call symm_mem::one_shot_all_reduce_out(%buffer, "sum", "g", %y)
  %m = call my::library(%x) : f32[16]
  call symm_mem::one_shot_all_reduce_out(%m, "sum", "g", %y)
  %e = ensure_aligned %v, 16
  call symm_mem::one_shot_all_reduce_out(%e, "sum", "g", %y)
  call aten::resize_(%y, [8])
  call_subgraph @f(%x, %a)
  drop %e
  free %m
  free %a
  free %b
  free %y.s
  return
}

func @f(%x: f32[16], %s: storage(64, symmetric("g", 3))) {
  %v = view %s : f32[16]
  copy %v, %x
  %y = alloc f32[16]
  call symm_mem::one_shot_all_reduce_out(%v, "sum", "g", %y)
  call symm_mem::one_shot_all_reduce_out(%x, "sum", "g", %y)
  free %y.s
  return
}
"""
"""Arguments in symmetric memory, and in memory of an unknown kind."""
IN_A_POOL = """
extern "my::sum(Tensor input, str group) -> Tensor" symmetric(input)

func @main(%x: f32[16]) {
  enter_memory_pool "pool" @cuda:0
  %a = alloc f32[16]
  exit_scope
  copy %a, %x
  %r = call my::sum(%a, "g") : f32[16]
  free %a.s
  return %r
}
"""
"""A memory pool may contain symmetric memory."""


GIVEN_ON = """
extern "my::put(Tensor tensor, int peer) -> ()" tags(collective) symmetric(tensor)
extern "symm_mem::one_shot_all_reduce(Tensor input, str reduce_op, str group_name) -> Tensor" tags(collective) symmetric(input)

func @main(%x: f32[16]) {
  %pool = alloc_storage 192 symmetric("g", 3) pool
  %a.s = slot %pool : 64 symmetric("g", 3)
  %a = view %a.s : f32[16]
  copy %a, %x
  %sum = call symm_mem::one_shot_all_reduce(%a, "sum", "g") : f32[16]
  free %a.s
  %b.s = slot %pool + 32 : 64 symmetric("g", 3)
  %b = view %b.s : f32[16]
  copy %b, %x
  call my::put(%b, 1)
  free %b.s
  %c.s = slot %pool + 96 : 64 symmetric("g", 3)
  free %c.s
  free %pool
  drop %x
  return %sum
}
"""
"""Allocations after an operator that waits for all processes, and next to bytes that another process may still read."""


@pytest.mark.parametrize(
    "text", [ONE_AFTER_THE_OTHER, OTHER_IDS, LENT, REUSED, ARGUMENTS, IN_A_POOL, GIVEN_ON]
)
def test_valid(text: str) -> None:
    program = parse_program(f"wir 0.5\ntarget cuda:0\n{text}")
    assert not check(program)
    assert parse_program(print_program(program)) == program
    assert from_json(to_json(program)) == program


def test_operators_that_wait_are_known_to_need_symmetric_memory() -> None:
    assert SYMMETRIC_ARGUMENTS.keys() >= WAITING
