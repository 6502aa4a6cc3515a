"""Programs that communicate, as text."""

from __future__ import annotations

__all__ = ["GATHERED", "HEAD", "REDUCED"]

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
