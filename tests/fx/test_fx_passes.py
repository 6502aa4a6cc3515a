"""Passes over FX graphs: torch's own and ours, over every program, both forms: the same results, the same
state, the same output structure.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest
import torch
from packages.py_wrapper.tests.py_case import Case, artifact_of
from torch import fx

import fx_converter
from fx_converter import FxOptions, passes, targets
from fx_converter.kernels import KernelCalls
from py_wrapper import TORCH_MACHINE
from tests.common.compare import assert_same
from tests.common.forms import FORMS, both_forms, plain
from tests.fx.fx_cases import BY_NAME, every_case, options, stored, wanted
from tests.fx.torch_passes import PASSES, parts, tagged
from tests.soundness.flat_inputs import flat_inputs
from wrapper_ir import parse_program
from wrapper_ir.artifact import bare_artifact
from wrapper_ir_runtime.interp import InterpOptions, run
from wrapper_ir_tools.testing import RandomOptions, random_artifact

every_pass = pytest.mark.parametrize("name", PASSES)


@pytest.mark.slow
@both_forms
@every_case
@every_pass
def test_programs(case: Case, form: KernelCalls, name: str) -> None:
    """Two calls of each, as graphs have state."""
    plain_one, changed = (fx_converter.convert(artifact_of(case), options(form)) for _ in range(2))
    changed = PASSES[name](changed)
    for _ in range(2):
        mine, others = case.inputs(), case.inputs()
        assert_same(changed(*mine), plain_one(*others))
        assert_same(mine, others)
    assert_same(fx_converter.convert(artifact_of(case), options(form))(*case.inputs()), wanted(case))


@both_forms
@every_case
def test_torchs_splitter_by_tags(case: Case, form: KernelCalls) -> None:
    """Parts are called in the order of their tags."""
    module = fx_converter.convert(artifact_of(case), options(form))
    mine = case.inputs()
    assert_same(tagged(module)(*mine), wanted(case))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
def test_random_programs(seed: int) -> None:
    rng = random.Random(seed)
    artifact = stored(random_artifact(rng, rng.randrange(5, 40), RandomOptions(executable=True)))
    inputs = flat_inputs(seed)
    torch.manual_seed(seed)
    want = run(artifact, list(inputs), TORCH_MACHINE, InterpOptions(debug=lambda op, values: None))
    for form in FORMS:
        for name in ("dead_code", "cse", "fold", "split"):
            module = fx_converter.convert(artifact, FxOptions(kernel_calls=form, convention="flat"))
            mine = flat_inputs(seed)
            changed = PASSES[name](module)
            torch.manual_seed(seed)
            assert_same(plain(changed(*mine)), plain(want))
            assert_same(mine, inputs)


# --- what is merged, and what is not

EXTERNS = """wir 0.5
target cpu

extern "aten::relu(Tensor self) -> Tensor"
extern "aten::neg(Tensor self) -> Tensor"
extern "aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor"
extern "aten::mul.Scalar(Tensor self, Scalar other) -> Tensor"
extern "aten::add_.Scalar(Tensor(a!) self, Scalar other, Scalar alpha=1) -> Tensor(a!)"
extern "aten::rand_like(Tensor self) -> Tensor" tags(random)

symbol s0 : int backed [2, 64] hint 4
symbol u0 : float unbacked
symbol u1 : float unbacked

mutable const %state : f32[4]
const %w : f32[4]

func @main(%x: f32[s0], %y: f32[s0]) {
  define s0 = size(%x, 0)
"""
TWICE = "  %a = call aten::relu(%x) : f32[s0]\n  %b = call aten::relu(%x) : f32[s0]\n"
SUM = "  %c = call aten::add.Tensor(%a, %b) : f32[s0]\n  return %c\n"
MERGED = {
    "pure calls": TWICE + SUM,
    "one of them is returned": TWICE + "  %c = call aten::neg(%b) : f32[s0]\n  return %a, %c\n",
    "what another tensor holds is written": "  %t = alloc f32[s0] zero(call)\n  %a = call aten::relu(%x) : f32[s0]\n"
    "  call aten::add_.Scalar(%t, 1)\n  %b = call aten::relu(%x) : f32[s0]\n" + SUM,
}
KEPT = {
    "both are returned": TWICE + "  return %a, %b\n",
    "the result is written": TWICE + "  call aten::add_.Scalar(%b, 1)\n" + SUM,
    "the operand is written": "  %a = call aten::relu(%x) : f32[s0]\n  call aten::add_.Scalar(%x, 1)\n"
    "  %b = call aten::relu(%x) : f32[s0]\n" + SUM,
    "a view of the operand is written": "  %a = call aten::relu(%x) : f32[s0]\n  %v = view %x : f32[1]\n"
    "  call aten::add_.Scalar(%v, 1)\n  %b = call aten::relu(%x) : f32[s0]\n" + SUM,
    "an input that may be the operand is written": "  %a = call aten::relu(%x) : f32[s0]\n"
    "  call aten::add_.Scalar(%y, 1)\n  %b = call aten::relu(%x) : f32[s0]\n" + SUM,
    "a constant that may be the operand is written": "  %a = call aten::relu(%x) : f32[s0]\n"
    "  call aten::add_.Scalar(%state, 1)\n  %b = call aten::relu(%x) : f32[s0]\n" + SUM,
    "it draws": TWICE.replace("relu", "rand_like") + SUM,
    "the numbers are of other types": "  %a = call aten::mul.Scalar(%x, 1) : f32[s0]\n"
    "  %b = call aten::mul.Scalar(%x, 1.0) : f32[s0]\n" + SUM,
    "signs of zeros": "  %a = call aten::mul.Scalar(%x, 0.0) : f32[s0]\n  %b = call aten::mul.Scalar(%x, -0.0) : f32[s0]\n"
    + SUM,
}


HELD = {"state": torch.ones(4), "w": torch.arange(4.0) - 1}


def graph_of(body: str, form: KernelCalls = "direct") -> fx.GraphModule:
    data = {name: TORCH_MACHINE.data(tensor) for name, tensor in HELD.items()}
    artifact = bare_artifact(parse_program(EXTERNS + body + "}\n"), data)
    return fx_converter.convert(artifact, options(form, check_results=False, convention="flat"))


def operators(module: fx.GraphModule) -> list[str]:
    calls = [
        n
        for n in module.graph.nodes
        if n.op == "call_function" and isinstance(n.target, torch._ops.OpOverload)
    ]
    return [str(n.target) for n in calls if "sym_size" not in str(n.target)]


def merges(body: str, form: KernelCalls) -> bool:
    """Returns whether the pass changes a graph.

    Results must stay the same, also if all inputs are one tensor.
    """
    module, changed = graph_of(body, form), graph_of(body, form)
    before = operators(changed)
    said = passes.cse(changed)
    assert said == (operators(changed) != before)
    changed.graph.lint()
    for same in (False, True):
        results = []
        for each in (module, changed):
            x = torch.arange(4.0) - 2
            torch.manual_seed(0)
            results.append([each(x, x if same else x.clone()), x])
        assert_same(*results)
    return said


@both_forms
@pytest.mark.parametrize("name", MERGED)
def test_what_is_merged(name: str, form: KernelCalls) -> None:
    assert merges(MERGED[name], form)


@both_forms
@pytest.mark.parametrize("name", KEPT)
def test_what_stays_apart(name: str, form: KernelCalls) -> None:
    assert not merges(KEPT[name], form)


def test_allocations_stay_apart() -> None:
    for form in FORMS:
        module = graph_of(
            "  %a = alloc f32[4]\n  %b = alloc f32[4]\n  copy %a, %w\n  copy %b, %w\n  return %a, %b\n", form
        )
        assert not passes.cse(module)


def test_numbers_and_windows_are_merged() -> None:
    """Also across writes, which they do not read."""
    module = graph_of("  %v = view %w : f32[2]\n  call aten::add_.Scalar(%y, 1)\n  return s0*s0\n")
    (root,) = (n for n in module.graph.nodes if n.name == "y")
    with module.graph.inserting_before(next(iter(reversed(module.graph.nodes)))):
        size = next(n for n in module.graph.nodes if n.name == "s0")
        double = module.graph.node_copy(size, lambda n: n)
    double.meta = dict(size.meta)
    output = next(iter(reversed(module.graph.nodes)))
    output.args = ((output.args[0][0], double),)
    assert root.users
    assert passes.cse(module)
    assert module(torch.ones(4), torch.ones(4)) == (16, 4)


def test_elements_are_read_again_after_a_write() -> None:
    body = (
        "  %v = view %y : f32[1]\n  define u0 = item(%v)\n  call aten::add_.Scalar(%y, 1)\n"
        "  define u1 = item(%v)\n  return u0, u1\n"
    )
    for form in FORMS:
        assert not merges(body, form)


def test_streams_keep_calls_apart() -> None:
    """A value computed on one stream is not available on another one without an event."""
    module = graph_of(TWICE + SUM)
    second = next(n for n in module.graph.nodes if n.name == "b")
    with module.graph.inserting_before(second):
        entered = module.graph.call_function(targets.enter_stream, ("cuda:0", 1))
    with module.graph.inserting_after(second):
        module.graph.call_function(targets.exit_stream, (entered,))
    assert not passes.cse(module)


# --- what is folded

FOLDED = "  %n = call aten::neg(%w) : f32[4]\n  %r = call aten::relu(%n) : f32[4]\n  %v = view %x : f32[4]\n"


@both_forms
def test_functions_of_constants_are_folded(form: KernelCalls) -> None:
    module = graph_of(FOLDED + "  %c = call aten::add.Tensor(%v, %r) : f32[4]\n  return %c\n", form)
    before = module(torch.ones(4), torch.ones(4))
    assert passes.fold_constants(module)
    assert operators(module).count("aten.neg.default") == operators(module).count("aten.relu.default") == 0
    assert_same(module(torch.ones(4), torch.ones(4)), before)


STAYS = {
    "returned": ("relu", FOLDED + "  return %r\n"),
    "written": (
        "relu",
        FOLDED
        + "  call aten::add_.Scalar(%r, 1)\n  %c = call aten::add.Tensor(%v, %r) : f32[4]\n  return %c\n",
    ),
    "an input is written": (
        "neg",
        FOLDED
        + "  call aten::add_.Scalar(%y, 1)\n  %c = call aten::add.Tensor(%v, %r) : f32[4]\n  return %c\n",
    ),
    "state": (
        "neg",
        FOLDED.replace("%w", "%state") + "  call aten::add_.Scalar(%state, 1)\n"
        "  %c = call aten::add.Tensor(%v, %r) : f32[4]\n  return %c\n",
    ),
    "random": (
        "rand_like",
        "  %n = call aten::rand_like(%w) : f32[4]\n  %c = call aten::neg(%n) : f32[4]\n"
        "  %d = call aten::neg(%c) : f32[4]\n  return %d\n",
    ),
}


@both_forms
@pytest.mark.parametrize("name", STAYS)
def test_what_may_change_is_not_folded(name: str, form: KernelCalls) -> None:
    """The caller may write its results, or its inputs."""
    operator, body = STAYS[name]
    module, changed = graph_of(body, form), graph_of(body, form)
    passes.fold_constants(changed)
    assert f"aten.{operator}.default" in operators(changed)
    for _ in range(2):
        torch.manual_seed(0)
        want = module(torch.ones(4), torch.ones(4))
        torch.manual_seed(0)
        got = changed(torch.ones(4), torch.ones(4))
        assert_same(got, want)
        got[0].zero_()


# --- parts


def test_parts_run_in_the_programs_order() -> None:
    """One writes memory that the next reads, and no value passes between them."""
    body = "  call aten::add_.Scalar(%x, 1)\n  call aten::add_.Scalar(%x, 2)\n  %a = call aten::relu(%x) : f32[s0]\n"
    module = graph_of(body + "  return %a\n")
    calls = [n for n in module.graph.nodes if n.op == "call_function" and "sym_size" not in str(n.target)]
    part = {node: number for number, node in enumerate(calls)}
    made = passes.split(module, lambda node: part.get(node, -1))
    assert [n.target for n in made.graph.nodes if n.op == "call_module"] == [
        f"submod_{i}" for i in range(len(calls) + 1)
    ]
    made.graph.eliminate_dead_code()
    made.recompile()
    x = torch.zeros(4)
    (result,) = made(x, x.clone())
    assert_same(result, torch.full((4,), 3.0))


def test_a_split_module_is_saved(tmp_path: Path) -> None:
    case = BY_NAME["mlp"]
    module = fx_converter.convert(stored(artifact_of(case)), options("direct"))
    fx_converter.save(parts(module), tmp_path / "parts.wir")
    assert_same(fx_converter.load(tmp_path / "parts.wir", options("direct"))(*case.inputs()), wanted(case))
