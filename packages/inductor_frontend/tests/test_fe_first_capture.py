"""The first capture of a process skips some of Inductor's work that is done once a process, but not all of
it."""

from __future__ import annotations

import functools
import subprocess
import sys
from contextlib import nullcontext
from typing import Any

import pytest
import torch
from torch import fx, nn
from torch._inductor import codecache, pattern_matcher, select_algorithm
from torch._inductor import config as inductor_config
from torch._inductor.fx_passes import fuse_attention, joint_graph, misc_patterns, post_grad
from torch._inductor.pattern_matcher import PatternExpr, PatternMatcherPass
from torch._inductor.runtime import triton_compat
from torch._subclasses.fake_tensor import FakeTensorMode

import inductor_frontend
from inductor_frontend.functionalize.pattern_registration import REQUIRED_OPERATORS
from inductor_frontend.record import templates
from inductor_frontend.record.replacement_traces import _Traces
from inductor_frontend.torch_patches.table import PatchPoint
from wrapper_ir import print_program

# Any in this file: operators and patterns.


class TestPatterns:
    @pytest.mark.parametrize(("point", "operator"), REQUIRED_OPERATORS, ids=lambda x: str(x)[:40])
    def test_every_pattern_has_its_operator(
        self, point: PatchPoint, operator: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """So a graph without it holds no match."""
        passes = [PatternMatcherPass() for _ in post_grad.pass_patterns]
        joint = PatternMatcherPass()
        monkeypatch.setattr(joint_graph, "patterns", joint)
        monkeypatch.setattr(fuse_attention, "patterns", joint, raising=False)
        monkeypatch.setattr(post_grad, "pass_patterns", passes)
        with FakeTensorMode():
            point.own().__wrapped__(torch.device("cpu"))
        entries = [entry for one in (joint, *passes) for items in one.patterns.values() for entry in items]
        assert entries
        assert all(operator in functions(entry.pattern) for entry in entries)

    def test_they_are_registered_when_a_graph_needs_them(self, registered: list[str]) -> None:
        inductor_frontend.capture(nn.Linear(4, 4), (torch.randn(2, 4),))
        assert registered == []
        x = torch.randn(2, 3, 4)
        inductor_frontend.capture(lambda x: x @ x.mT, (x,))
        assert registered == ["attention"]
        inductor_frontend.capture(lambda x: torch.randperm(3) + x, (torch.randn(3),))
        inductor_frontend.capture(lambda x: x @ x.mT, (x,))
        assert registered == ["attention", "permutations"]

    def test_torch_registers_the_rest(self, registered: list[str]) -> None:
        """Stock code of the same process is unchanged."""
        torch.compile(lambda x: x + 1, backend="wrapper_ir", options={"cache": False})(torch.zeros(2))
        assert registered == []
        joint_graph.lazy_init(torch.device("cpu"))
        assert registered == ["attention", "permutations"]

    def test_a_pass_of_the_user_may_add_any_operator(self, registered: list[str]) -> None:
        with inductor_config.patch(joint_custom_pre_pass=lambda graph: None):
            inductor_frontend.capture(lambda x: x + 1, (torch.zeros(2),))
        assert registered == ["attention", "permutations"]


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Yields the kinds of patterns that are registered from now on, with none registered before."""
    names: list[str] = []
    for module, name, kind in (
        (fuse_attention, "_sfdp_init", "attention"),
        (misc_patterns, "_misc_patterns_init", "permutations"),
    ):
        noted = functools.cache(lambda device, kind=kind: names.append(kind))
        monkeypatch.setattr(module, name, noted)
    anew: Any = joint_graph.lazy_init
    monkeypatch.setattr(joint_graph, "lazy_init", functools.cache(anew.__wrapped__))
    return names


def functions(pattern: PatternExpr) -> set[Any]:
    """All functions that a pattern's nodes may call. Nodes are shared."""
    result: set[Any] = set()
    visited: set[int] = set()
    todo: list[Any] = [pattern]
    while todo:
        part = todo.pop()
        if isinstance(part, (list, tuple)):
            todo += part
        elif isinstance(part, dict):
            todo += part.values()
        elif isinstance(part, PatternExpr) and id(part) not in visited:
            visited.add(id(part))
            result.update(getattr(part, "fns", ()))
            todo += vars(part).values()
    return result


class TestMeasurements:
    """Captures measure nothing, so they need no measurement key, which would hash Triton's library."""

    @pytest.fixture(autouse=True)
    def nothing_is_hashed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def fail() -> object:
            pytest.fail("asks for the key of measurements")

        monkeypatch.setattr(codecache.CacheBase, "get_system", staticmethod(fail))
        monkeypatch.setattr(triton_compat, "triton_key", fail)
        monkeypatch.setattr(select_algorithm, "_ALGORITHM_SELECTOR_CACHE", None)

    @pytest.mark.parametrize("matmuls", ["extern", "templates"])
    def test_a_capture_makes_no_key(self, matmuls: Any) -> None:
        options = inductor_frontend.CaptureOptions(matmuls=matmuls)
        model, x = nn.Linear(64, 64), torch.randn(32, 64)
        inductor_frontend.capture(model, (x,), target="cuda:sm_80", options=options)
        assert select_algorithm._ALGORITHM_SELECTOR_CACHE is None, "torch makes its own"

    def test_what_the_process_has_is_taken(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """It may contain functions of the user."""
        calls: list[object] = []

        def noted(choices: list[Any]) -> list[Any]:
            calls.append(choices)
            return choices

        templates._selector.cache_clear()
        theirs = templates._selector()
        templates._selector.cache_clear()
        theirs.add_preprocessing_fn(noted)
        monkeypatch.setattr(select_algorithm, "_ALGORITHM_SELECTOR_CACHE", theirs)
        inductor_frontend.capture(nn.Linear(64, 64), (torch.randn(32, 64),), target="cuda:sm_80")
        assert calls


class TestReplacements:
    """Of equal layers on a GPU, the bias of each matmul goes into the kernel that follows."""

    @staticmethod
    def layers(count: int) -> nn.Module:
        torch.manual_seed(0)
        return nn.Sequential(*(m for _ in range(count) for m in (nn.Linear(8, 8), nn.ReLU())))

    def test_equal_ones_are_traced_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        graphs: list[object] = []
        plain = pattern_matcher.fwd_only

        def counted(function: Any, *args: Any, **options: Any) -> Any:
            graphs.extend(args if function.__name__ == "repl" else ())  # others are what matches
            return plain(function, *args, **options)

        monkeypatch.setattr(pattern_matcher, "fwd_only", counted)
        model = nn.Sequential(self.layers(4), nn.Linear(8, 4), nn.ReLU())
        once = inductor_frontend.capture(model, (torch.randn(2, 8),), target="cuda:sm_80")
        assert len(graphs) == 2
        monkeypatch.setattr("inductor_frontend.record.lowering.equal_replacements_traced_once", nullcontext)
        each = inductor_frontend.capture(model, (torch.randn(2, 8),), target="cuda:sm_80")
        assert len(graphs) == 2 + 5
        assert print_program(once.program) == print_program(each.program)

    @staticmethod
    def replacement(x: Any, y: Any, alpha: float) -> Any:
        return x @ y + alpha

    def test_what_is_traced_again_is_as_new(self) -> None:
        with FakeTensorMode():
            x, y = torch.empty(4, 4), torch.empty(4, 4)
        traces = _Traces(pattern_matcher.fwd_only)
        first = traces(self.replacement, [x, y, 2.0])
        code, memory = first.code, storages(first)
        for node in first.graph.nodes:
            node.meta["noted"] = "by who asked for it"
        again = traces(self.replacement, [y, x, 2.0])
        assert again is first
        assert again.code == code
        assert not any("noted" in node.meta for node in again.graph.nodes)
        assert memory.isdisjoint(storages(again))
        assert len(storages(again)) == 2
        assert [n.meta["val"].shape for n in again.graph.nodes if n.op == "call_function"] == [(4, 4)] * 2

    @pytest.mark.parametrize("other", ["number", "kind of number", "size", "same tensor", "type", "option"])
    def test_others_are_traced(self, other: str) -> None:
        with FakeTensorMode():
            x, y, z = torch.empty(4, 4), torch.empty(4, 4), torch.empty(4, 2)
        traces = _Traces(pattern_matcher.fwd_only)
        first = traces(self.replacement, [x, y, 2.0])
        args: dict[str, list[Any]] = {
            "number": [x, y, 3.0],
            "kind of number": [x, y, 2],
            "size": [x, z, 2.0],
            "same tensor": [x, x, 2.0],
            "type": [x.double(), y.double(), 2.0],
            "option": [x, y, 2.0],
        }
        options = {"run_functional_passes": False} if other == "option" else {}
        assert traces(self.replacement, args[other], **options) is not first
        assert traces(self.replacement, [x, y, 2.0]) is first

    def test_results_that_share_memory_are_never_taken_again(self) -> None:
        with FakeTensorMode(allow_non_fake_inputs=True):
            x = torch.empty(4, 4)
        traces = _Traces(pattern_matcher.fwd_only)

        def viewed(x: Any) -> Any:
            return x.t() + 1

        shared = torch.ones(4)
        assert traces(viewed, [x]) is not traces(viewed, [x])
        assert traces(lambda x: x + shared, [x]) is not traces(lambda x: x + shared, [x])


def storages(graph: fx.GraphModule) -> set[int]:
    """Those of a traced graph's results."""
    values = (n.meta["val"] for n in graph.graph.nodes if n.op == "call_function")
    return {x.untyped_storage()._cdata for x in values}


UNUSED = (
    "inductor_frontend.devices.attention", "inductor_frontend.devices.absent_gpu", "inductor_frontend.devices.targets",
    "inductor_frontend.export.torch_export", "inductor_frontend.frontend", "torch._inductor.fx_passes.serialized_patterns._sfdp_pattern_1",
    "wrapper_ir_runtime.interp", "wrapper_ir_tools.explain.program",
)  # fmt: skip
FIRST_CALL = f"""
import sys
import torch

f = torch.compile(torch.nn.Linear(4, 4), backend="wrapper_ir", options={{"cache": False}})
with torch.no_grad():
    f(torch.randn(2, 4))
print([name for name in {UNUSED} if name in sys.modules])
"""


@pytest.mark.slow
def test_a_first_call_imports_only_what_it_uses() -> None:
    process = subprocess.run([sys.executable, "-c", FIRST_CALL], capture_output=True, text=True, check=False)
    assert (process.returncode, process.stdout.strip()) == (0, "[]"), process.stdout + process.stderr
