"""Graphs of the form `hop` are traced again: by `make_fx` on real, fake and symbolic inputs, and by
`torch.export`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
import torch
from packages.py_wrapper.tests.py_case import Case, artifact_of, find_runtime
from packages.py_wrapper.tests.py_programs import CASES
from torch import fx

import fx_converter
from fx_converter import FxOptions
from tests.common.compare import assert_same
from tests.fx.retracing import WAYS, Way, traced

BY_NAME = {case.name: case for case in CASES}


def hop(case: Case) -> fx.GraphModule:
    options = FxOptions(kernel_calls="hop", convention="flat", find_runtime=find_runtime)
    return fx_converter.convert(artifact_of(case), options)


_REAL_NUMBER = "trying to get value out of a tracing tensor"
REFUSED: Mapping[tuple[str, str], str] = {
    # an element that is read becomes a number, for which this way has no symbol
    ("symbols", "real"): _REAL_NUMBER,
    # whether all elements are finite is such a number
    ("checks", "real"): _REAL_NUMBER,
    # torch names the inputs of submodules after their argument nodes: a constant size has none,
    ("cond", "export"): "'int' object has no attribute 'name'",
    # and a node passed twice, for a parameter and for a captured symbol, creates two inputs of one name
    ("cond", "export dynamic"): "duplicate argument",
    **{(f"switch_{index}", "export"): "'int' object has no attribute 'name'" for index in range(3)},
}
"""Programs that torch does not trace in this way, with its message."""


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_programs_are_traced_again(case: Case, way: Way) -> None:
    module = hop(case)
    state = {name: held.clone() for name, held in module.named_buffers()}
    if (case.name, way) in REFUSED:
        with pytest.raises(Exception, match=REFUSED[case.name, way]):
            traced(module, way, case.inputs())
        return
    again = traced(module, way, case.inputs())
    for name, held in module.named_buffers():
        held.copy_(state[name])  # tracing with real tensors has run it
    inputs = case.inputs()
    assert_same(again(*inputs), case.expected(*case.inputs()))
    if case.after is not None:
        after = case.after(*[x.clone() for x in case.inputs()][: case.after.__code__.co_argcount])
        assert_same(tuple(inputs[: len(after)]), tuple(after))


@pytest.mark.parametrize("way", ["symbolic", "export dynamic"])
def test_sizes_stay_free(way: Way) -> None:
    case = BY_NAME["mlp"]
    again = traced(hop(case), way, case.inputs())
    x, w = torch.randn(9, 8), torch.randn(8, 4)
    assert_same(again(x, w)[:2], (x @ w * 2 + 1, 18))


@pytest.mark.parametrize("way", WAYS)
def test_a_trace_aligns_what_the_graph_aligns(way: Way) -> None:
    """Always by a copy: tensors of a later call may have any alignment."""
    x = torch.arange(9.0)[1:]
    for inputs in (BY_NAME["aligned"].inputs(), [x]):
        again = traced(hop(BY_NAME["aligned"]), way, inputs)
        assert isinstance(again, fx.GraphModule)
        copies = [n for n in again.graph.nodes if n.target is torch.ops.aten.copy_.default]
        assert len(copies) == 1
        assert_same(again(x), BY_NAME["aligned"].expected(x))


def test_what_a_trace_leaves_out() -> None:
    """Calls that are not operators run during tracing, and are not in the new graph: checks, texts, ends,
    events, sizes of storages.

    Alignment, windows, storages that are set, copies of shared results, choices of numbers and branches are
    torch's own operators there.
    """
    lost: set[str] = set()
    for case in CASES:
        if (case.name, "symbolic") in REFUSED:
            continue
        module = hop(case)
        again = traced(module, "symbolic", case.inputs())
        lost |= _functions(module) - _functions(again)
    assert lost == {
        "align",
        "invoke_effect",
        "loop_effect",
        "assert_alignment",
        "assert_expr",
        "assert_finite",
        "assert_layout",
        "barrier",
        "check_inputs",
        "check_result",
        "check_storages",
        "choose",
        "comment",
        "cond_effect",
        "enter_profile",
        "exit_scope",
        "free",
        "int64",
        "record_event",
        "resize_storage",
        "same",
        "set_storage",
        "show_line",
        "show_tensor",
        "switch",
        "switch_effect",
        "sync_event",
        "unshared",
        "wait_event",
        "window",
    }


def _functions(module: Any) -> set[str]:
    """Functions of ours that a graph calls."""
    graphs = [m.graph for m in module.modules() if isinstance(m, fx.GraphModule)]
    functions = [n.target for graph in graphs for n in graph.nodes if n.op == "call_function"]
    return {f.__name__ for f in functions if getattr(f, "__module__", "").startswith("fx_converter.targets")}
