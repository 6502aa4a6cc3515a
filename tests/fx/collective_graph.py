"""The graph module of a program with collectives."""

from __future__ import annotations

from torch import fx

import fx_converter
import wrapper_ir
from fx_converter import FxOptions
from fx_converter.kernels import KernelCalls
from wrapper_ir.artifact import bare_artifact

PROGRAM = """wir 0.5
target cpu

extern "_c10d_functional::all_reduce_(Tensor(a!) input, str reduce_op, str group_name) -> Tensor(a!)" tags(collective)
extern "_c10d_functional::all_gather_into_tensor(Tensor input, int group_size, str group_name) -> Tensor" tags(collective)
extern "_c10d_functional::reduce_scatter_tensor(Tensor input, str reduce_op, int group_size, str group_name) -> Tensor" tags(collective)
extern "_c10d_functional::all_to_all_single(Tensor input, SymInt[] output_split_sizes, SymInt[] input_split_sizes, str group_name) -> Tensor" tags(collective)
extern "_c10d_functional::broadcast(Tensor input, int src, str group_name) -> Tensor" tags(collective)
extern "_c10d_functional::all_gather_into_tensor_coalesced(Tensor[] inputs, int group_size, str group_name) -> Tensor[]" tags(collective)

symbol s0 : int backed [2, 64] hint 4

func @main(%x: f32[s0]) {
  define s0 = size(%x, 0)
  %r.h = collective _c10d_functional::all_reduce_(%x, "sum", "0") group("0") : f32[s0]
  %r = wait %r.h : f32[s0]
  %g.h = collective _c10d_functional::all_gather_into_tensor(%r, 1, "0") group("0") : f32[s0]
  %g = wait %g.h : f32[s0]
  %p.h = collective _c10d_functional::reduce_scatter_tensor(%g, "sum", 1, "0") group("0") : f32[s0]
  %p = wait %p.h : f32[s0]
  %a.h = collective _c10d_functional::all_to_all_single(%p, [s0], [s0], "0") group("0") : f32[s0]
  %b.h = collective _c10d_functional::broadcast(%p, 0, "0") group("0") : f32[s0]
  %b = wait %b.h : f32[s0]
  %a = wait %a.h : f32[s0]
  %c.h, %d.h = collective _c10d_functional::all_gather_into_tensor_coalesced([%a, %b], 1, "0") group("0") : f32[s0], f32[s0]
  %d = wait %d.h : f32[s0]
  %c = wait %c.h : f32[s0]
  return %c, %d
}
"""


def graph(form: KernelCalls) -> fx.GraphModule:
    options = FxOptions(kernel_calls=form, check_results=False)
    return fx_converter.convert(bare_artifact(wrapper_ir.parse_program(PROGRAM)), options)
