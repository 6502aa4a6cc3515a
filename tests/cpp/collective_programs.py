"""Programs that communicate, as text."""

from __future__ import annotations

HEAD = """
extern "_c10d_functional::all_reduce(Tensor input, str reduce_op, str group_name) -> Tensor" tags(collective)
extern "_c10d_functional::all_reduce_(Tensor(a!) input, str reduce_op, str group_name) -> Tensor(a!)" tags(collective)
extern "_c10d_functional::all_gather_into_tensor_coalesced(Tensor[] inputs, int group_size, str group_name) -> Tensor[]" tags(collective)
"""
REDUCED = """
func @main(%x: f32[4]) {
  %h = collective _c10d_functional::all_reduce(%x, "sum", "0") group("0") : f32[4]
  %y = wait %h : f32[4]
  %i = collective _c10d_functional::all_reduce_(%y, "sum", "0") group("0") : f32[4]
  %z = wait %i : f32[4]
  return %z
}
"""
GATHERED = """
func @main(%x: f32[4]) {
  %a = collective _c10d_functional::all_gather_into_tensor_coalesced([%x], 1, "0") group("0") : f32[4]
  %c = wait %a : f32[4]
  return %c
}
"""
SHARED = """wir 0.5
target cuda:0 arch "sm_90"

symbol s0 : int backed [2, 64] hint 4
extern "symm_mem::one_shot_all_reduce_out(Tensor input, str reduce_op, str group_name, Tensor(a!) out) -> Tensor(a!)" tags(collective) symmetric(input)
extern "_c10d_functional::all_reduce_(Tensor(a!) input, str reduce_op, str group_name) -> Tensor(a!)" tags(collective)

func @main(%x: f32[s0, 4]) {
  define s0 = size(%x, 0)
  %b.s = alloc_storage s0*16 symmetric("0", 18446744073709551614)
  %b = view %b.s : f32[s0, 4]
  copy %b, %x
  %y = alloc f32[s0, 4]
  call symm_mem::one_shot_all_reduce_out(%b, "sum", "0", %y)
  free %b.s
  %r.s = alloc_storage 64 registered("0", 7) zero(call)
  %r = view %r.s : f32[16]
  %h = collective _c10d_functional::all_reduce_(%r, "sum", "0") group("0") : f32[16]
  %w = wait %h : f32[16]
  %z = alloc f32[16]
  copy %z, %w
  free %r.s
  return %y, %z
}
"""
"""Memory of a group, symmetric and registered."""
