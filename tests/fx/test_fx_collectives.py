"""Collectives in FX graphs: calls, from IR text, and results in a real group of this process alone.

`test_collectives.py` runs graphs of all collectives on two processes.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import fx_converter
from fx_converter import FxOptions
from fx_converter.kernels import KernelCalls
from tests.collectives.collective_cases import lonely_artifact, lonely_group
from tests.common.compare import assert_same, clone_tree
from tests.common.forms import both_forms
from tests.fx.collective_graph import graph
from wrapper_ir.errors import NotSupportedError

CALLS = [
    "check_groups(['0'], 'cpu')",
    "sym_size.int(x, 0)",
    "finished_all_reduce_(x, 'sum', '0')",
    "same(r_h,)",
    "finished_all_gather_into_tensor(r, 1, '0')",
    "same(g_h,)",
    "finished_reduce_scatter_tensor(g, 'sum', 1, '0')",
    "same(p_h,)",
    "all_to_all_single.default(p, [s0], [s0], '0')",
    "broadcast.default(p, 0, '0')",
    "wait_tensor.default(b_h,)",
    "wait_tensor.default(a_h,)",
    "finished_all_gather_into_tensor_coalesced([a, b], 1, '0')",
    "getitem(finished_all_gather_into_tensor_coalesced, 0)",
    "getitem(finished_all_gather_into_tensor_coalesced, 1)",
    "same(d_h,)",
    "same(c_h,)",
]


@both_forms
def test_a_start_and_a_wait_are_nodes_in_the_programs_order(form: KernelCalls) -> None:
    module = graph(form)
    module.graph.lint()
    checked, storages, *calls = (n for n in module.graph.nodes if n.op == "call_function")
    assert (checked.name, storages.name) == ("check_inputs", "check_storages")
    assert [f"{getattr(n.target, '__name__', '')}{n.args}" for n in calls] == CALLS
    vals = {n.name: n.meta["val"] for n in calls}
    assert {str(vals[name].shape) for name in ("r_h", "g", "a_h", "c_h", "d")} == {"torch.Size([s0])"}
    both = vals["finished_all_gather_into_tensor_coalesced"]
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
