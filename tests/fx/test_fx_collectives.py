"""Collectives in FX graphs: what is called, from IR text; and what graphs give in a real group of this process alone.

`test_collectives.py` runs graphs of all collectives on two processes.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import fx

import fx_converter
import wrapper_ir
from fx_converter import FxOptions
from fx_converter.options import KernelCalls
from tests.collectives.collective_cases import lonely_artifact, lonely_group
from tests.common.compare import assert_same, clone_tree
from wrapper_ir.artifact import bare_artifact
from wrapper_ir.errors import NotSupportedError

FORMS: tuple[KernelCalls, ...] = ("direct", "hop")
both_forms = pytest.mark.parametrize("form", FORMS)
PROGRAM = """wir 0.2
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
CALLS = [
    "check_groups(['0'],)",
    "sym_size.int(x, 0)",
    "all_reduce_.default(x, 'sum', '0')",
    "wait_tensor.default(r_h,)",
    "all_gather_into_tensor.default(r, 1, '0')",
    "wait_tensor.default(g_h,)",
    "reduce_scatter_tensor.default(g, 'sum', 1, '0')",
    "wait_tensor.default(p_h,)",
    "all_to_all_single.default(p, [s0], [s0], '0')",
    "broadcast.default(p, 0, '0')",
    "wait_tensor.default(b_h,)",
    "wait_tensor.default(a_h,)",
    "all_gather_into_tensor_coalesced.default([a, b], 1, '0')",
    "getitem(all_gather_into_tensor_coalesced_default, 0)",
    "getitem(all_gather_into_tensor_coalesced_default, 1)",
    "wait_tensor.default(d_h,)",
    "wait_tensor.default(c_h,)",
]


def graph(form: KernelCalls) -> fx.GraphModule:
    options = FxOptions(kernel_calls=form, check_results=False)
    return fx_converter.convert(bare_artifact(wrapper_ir.parse_program(PROGRAM)), options)


@both_forms
def test_a_start_and_a_wait_are_nodes_in_the_programs_order(form: KernelCalls) -> None:
    module = graph(form)
    module.graph.lint()
    checked, *calls = (n for n in module.graph.nodes if n.op == "call_function")
    assert checked.name == "check_inputs"
    assert [f"{getattr(n.target, '__name__', '')}{n.args}" for n in calls] == CALLS
    vals = {n.name: n.meta["val"] for n in calls}
    assert {str(vals[name].shape) for name in ("r_h", "g", "a_h", "c_h", "d")} == {"torch.Size([s0])"}
    both = vals["all_gather_into_tensor_coalesced_default"]
    assert [str(x.shape) for x in both] == ["torch.Size([s0])"] * 2


@both_forms
def test_graphs_run_in_the_group_that_the_process_has(form: KernelCalls, tmp_path: Path) -> None:
    module, x = graph(form), torch.arange(5.0)
    fx_converter.save(module, tmp_path / "graph.wir")
    with lonely_group(tmp_path):
        for way in (module, fx_converter.load(tmp_path / "graph.wir")):
            assert_same(way(x.clone()), (x, x))
    with pytest.raises(NotSupportedError, match="WIR915"):
        module(x)


@both_forms
def test_captured_collectives(form: KernelCalls, tmp_path: Path) -> None:
    """All forms of them: in place, coalesced, with out arguments."""
    artifact, inputs = lonely_artifact()
    run = fx_converter.compile(artifact, FxOptions(kernel_calls=form))
    x, w = inputs
    with lonely_group(tmp_path):
        got: Any = run.boxed(clone_tree(inputs))
    torch.testing.assert_close(got, (x + w + x @ w, x @ w))
