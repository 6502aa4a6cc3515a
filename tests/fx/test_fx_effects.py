"""Torch's own passes know which calls of a graph have an effect: in each form, for each op, in files and in
copies.
"""

from __future__ import annotations

import copy
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from packages.py_wrapper.tests.py_case import Case, artifact_of
from packages.py_wrapper.tests.py_programs import CASES
from torch import fx

import fx_converter
import wrapper_ir
from fx_converter import FxOptions, targets
from fx_converter._compat import is_impure
from fx_converter.converter import convert_op
from fx_converter.effects import does_more
from fx_converter.graph.scope import FunctionScope
from fx_converter.kernels import KernelCalls, LoadedTarget
from fx_converter.targets.collectives import FINISHED_CALLS
from tests.common.compare import assert_same
from tests.common.forms import both_forms
from tests.fx.collective_graph import graph as collectives
from tests.fx.fx_cases import every_case, options, stored
from wrapper_ir import ir
from wrapper_ir.artifact import Artifact, bare_artifact

PURE = {
    "align",
    "both",
    "choose",
    "comment",
    "either",
    "int64",
    "partial_call",
    "power",
    "replay",
    "same",
    "switch",
    "total_call",
    "truth",
    "unshared",
    "window",
}
"""Functions of a graph's own that only return something; a comment does not even that."""


def test_every_function_is_marked_or_pure() -> None:
    marked = {name for name in targets.__all__ if is_impure(getattr(targets, name))}
    assert marked == set(targets.__all__) - PURE


class Watch:
    """A compiler that converts as ever, and keeps which nodes each op became."""

    name = "watch"

    def __init__(self) -> None:
        self.nodes: list[tuple[ir.Op, FunctionScope, list[fx.Node]]] = []

    @property
    def lowerings(self) -> Mapping[type[ir.OpBase], Callable[[Any, FunctionScope], bool]]:
        return dict.fromkeys(ir.OPS, self._convert)

    def _convert(self, op: Any, scope: FunctionScope) -> bool:
        before = set(scope.graph.nodes)
        convert_op(scope.position, scope)
        self.nodes.append((op, scope, [n for n in scope.graph.nodes if n not in before]))
        return True

    def compile_graph(self, module: fx.GraphModule) -> Callable[..., tuple[Any, ...]]:
        raise AssertionError("graphs are not compiled here")


def effectful_nodes(artifact: Artifact, form: KernelCalls) -> set[str]:
    """Checks that each op with an effect became a call that torch keeps; returns the classes of such ops."""
    watch = Watch()
    fx_converter.convert(artifact, options(form, compilers={artifact.program.target.device.type: watch}))
    found = set()
    for op, scope, nodes in watch.nodes:
        calls = [n for n in nodes if n.op == "call_function"]
        if calls and (does_more(op, scope.program.analyses) or isinstance(op, ir.Free)):
            assert any(n.is_impure() for n in calls), op
            found.add(type(op).__name__)
    return found


@both_forms
def test_every_op_with_an_effect_is_a_call_that_torch_keeps(form: KernelCalls) -> None:
    found = set().union(*(effectful_nodes(artifact_of(case), form) for case in CASES))
    assert found >= {
        "AssertExpr", "AssertFinite", "AssertLayout", "Barrier", "CallExtern", "Copy", "DebugValue", "Free", "Launch",
        "RecordEvent", "ResizeStorage", "SetStorage", "SyncEvent", "WaitEvent",
    }  # fmt: skip


CONTROL = """wir 0.5
target cpu

extern "aten::rand_like(Tensor self) -> Tensor" tags(random)
extern "aten::lt.Scalar(Tensor self, Scalar other) -> Tensor"
extern "aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor"

func @main(%x: f32[4], %i: f32[], %p: bool[]) {
  %f = call_subgraph @draw(%x) : f32[4]
  %c = cond %p then @draw else @draw (%x) : f32[4]
  %j = while @test do @body carried(%i) : f32[]
  return %x
}

func @draw(%a: f32[4]) {
  %r = call aten::rand_like(%a) : f32[4]
  return %r
}

func @test(%k: f32[]) {
  %t = call aten::lt.Scalar(%k, 0) : bool[]
  return %t
}

func @body(%k: f32[]) {
  %r = call aten::rand_like(%k) : f32[]
  %n = call aten::add.Tensor(%k, %r) : f32[]
  return %n
}
"""


@both_forms
def test_control_flow_with_effects_is_kept(form: KernelCalls) -> None:
    """The random state afterwards is that of the whole program."""
    artifact = bare_artifact(wrapper_ir.parse_program(CONTROL))
    assert effectful_nodes(artifact, form) >= {"CallSubgraph", "Switch", "WhileLoop"}
    whole, lean = (fx_converter.convert(artifact, options(form)) for _ in range(2))
    lean.graph.eliminate_dead_code()
    lean.recompile()
    states = []
    for module in (whole, lean):
        torch.manual_seed(0)
        module(torch.ones(4), torch.tensor(-3.0), torch.tensor(True))
        states.append(torch.get_rng_state())
    assert_same(*states)
    torch.manual_seed(0)
    assert not torch.equal(states[0], torch.get_rng_state())


@both_forms
def test_collectives_and_waits_are_kept(form: KernelCalls) -> None:
    module = collectives(form)
    before = [n.name for n in module.graph.nodes]
    called = [n for n in module.graph.nodes if n.op == "call_function"]
    operators = [n for n in called if isinstance(n.target, torch._ops.OpOverload) and n.name != "s0"]
    finished = [n for n in called if n.target in FINISHED_CALLS.values()]
    assert (len(operators), len(finished)) == (4, 4)
    assert all(n.is_impure() for n in (*operators, *finished))
    module.graph.eliminate_dead_code()
    assert [n.name for n in module.graph.nodes] == before


@pytest.mark.slow
@both_forms
@every_case
def test_dead_code_elimination_of_loaded_graphs(case: Case, form: KernelCalls, tmp_path: Path) -> None:
    module = fx_converter.convert(stored(artifact_of(case)), options(form))
    fx_converter.save(module, tmp_path / "graph.wir")
    lean = fx_converter.load(tmp_path / "graph.wir", options(form))
    lean.graph.eliminate_dead_code()
    lean.recompile()
    mine, others = case.inputs(), case.inputs()
    assert_same(lean(*mine), module(*others))
    assert_same(mine, others)


def test_a_launcher_that_is_forgotten_is_freed() -> None:
    """Marks belong to call targets and keep none alive, although torch's own table lives as long as the
    process.
    """
    before = len(fx.node._side_effectful_functions)
    module = fx_converter.convert(artifact_of(next(c for c in CASES if c.name == "mlp")), options("direct"))
    launchers = [n for n in module.graph.nodes if isinstance(n.target, LoadedTarget)]
    assert launchers
    assert all(n.is_impure() for n in launchers)
    assert len(fx.node._side_effectful_functions) == before


SILENT = """wir 0.5
target cpu

kernel foreign @increment runtime "pytest-kernels" (read f32* x) {{{
increment
}}}

func @main(%x: f32[4]) {
  launch @increment(%x)
  return
}
"""


@both_forms
def test_a_kernel_that_writes_nothing_is_kept(form: KernelCalls) -> None:
    """Its other effects are unknown."""
    module = fx_converter.convert(bare_artifact(wrapper_ir.parse_program(SILENT)), options(form))
    module.graph.eliminate_dead_code()
    assert len([n for n in module.graph.nodes if "kernel" in n.meta]) == 1


EFFECTFUL = """wir 0.5
target cpu

extern "aten::rand_like(Tensor self) -> Tensor" tags(random)
extern "aten::sort(Tensor self) -> (Tensor, Tensor)" tags(effectful)
extern "aten::sign(Tensor self) -> Tensor" tags(host_io)
extern "aten::relu(Tensor self) -> Tensor"

func @main(%x: f32[4]) {
  %r = call aten::rand_like(%x) : f32[4]
  %s = call aten::sign(%x) : f32[4]
  %u = call aten::relu(%x) : f32[4]
  return
}
"""


@both_forms
def test_tagged_operators_are_kept(form: KernelCalls) -> None:
    module = fx_converter.convert(
        bare_artifact(wrapper_ir.parse_program(EFFECTFUL)), options(form, check_results=False)
    )
    module.graph.eliminate_dead_code()
    names = [n.name for n in module.graph.nodes if n.op == "call_function" and "value" in n.meta]
    assert names == ["r", "s"]


CHILD = """
import sys, torch, fx_converter
module = fx_converter.load(sys.argv[1])
before = [n.name for n in module.graph.nodes if n.name != "u"]
module.graph.eliminate_dead_code()
module.recompile()
assert [n.name for n in module.graph.nodes if n.op != "call_function" or n.is_impure() or n.users]
got = module(torch.arange(4.0) - 1)
torch.testing.assert_close(got[0], torch.tensor([0.0, 0.0, 1.0, 2.0]))
try:
    module(torch.full((4,), torch.nan))
except Exception as error:
    assert "WIR922" in str(error), error
else:
    raise AssertionError("the check is gone")
print(*(n.name for n in module.graph.nodes))
"""
CPP = """wir 0.5
target cpu

extern "aten::sgn(Tensor self) -> Tensor" tags(host_io)
extern "aten::abs(Tensor self) -> Tensor"

kernel cpp @relu entry "relu" (read f32* x, write f32* y, i64 count) {{{
extern "C" void relu(const float* x, float* y, long count) {
    for (long i = 0; i < count; i++) y[i] = x[i] > 0 ? x[i] : 0;
}
}}}

func @main(%x: f32[4]) {
  assert_finite %x "of the input"
  %u = call aten::abs(%x) : f32[4]
  %p = call aten::sgn(%x) : f32[4]
  %y = alloc f32[4]
  launch @relu(%x, %y, 4)
  return %y
}
"""


@pytest.mark.slow
@both_forms
def test_a_fresh_process_keeps_effects(form: KernelCalls, tmp_path: Path) -> None:
    artifact = bare_artifact(wrapper_ir.parse_program(CPP))
    module = fx_converter.convert(artifact, FxOptions(kernel_calls=form, check_results=False))
    fx_converter.save(module, tmp_path / "graph.wir")
    child = [sys.executable, "-c", CHILD, str(tmp_path / "graph.wir")]
    done = subprocess.run(child, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    kept = done.stdout.split()
    assert "u" not in kept
    assert "p" in kept


@both_forms
def test_copies_know_it_too(form: KernelCalls) -> None:
    case = next(c for c in CASES if c.name == "mlp")
    module = fx_converter.convert(artifact_of(case), options(form))
    ways = (copy.deepcopy(module), fx.GraphModule(module, module.graph), fx.Transformer(module).transform())
    for made in ways:
        made.graph.eliminate_dead_code()
        launches = [n for n in made.graph.nodes if n.op == "call_function" and n.is_impure()]
        assert len(launches) >= 5
        made.recompile()
        assert_same(made(*case.inputs()), case.expected(*case.inputs()))
