"""Planned programs give what unplanned ones give, bit for bit, in every engine; poisoned slots change nothing."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils import _pytree as pytree

import fx_converter
import py_wrapper
from fx_converter import FxOptions
from inductor_frontend import CaptureOptions, capture
from py_wrapper import PyOptions
from tests.common.compare import clone_tree
from tests.common.zoo import ZOO
from tests.models.model_cases import artifact_of, calls_of, case_of
from wrapper_ir import parse_program, verify
from wrapper_ir.analysis.stats import program_stats
from wrapper_ir.artifact import Artifact, bare_artifact
from wrapper_ir.interp import InterpOptions, Interpreter
from wrapper_ir.ops import Slot
from wrapper_ir.passes import PlanMemory, compare, run_pipeline

POISON = 0x7B
QUICK = {"moe"}
"""Those whose proof is part of `make test`; all are part of `make conformance`."""
MODELS = [pytest.param(n, marks=() if n in QUICK else pytest.mark.conformance) for n in ZOO]


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", MODELS)
def test_in_every_engine(name: str, dynamic: bool) -> None:
    case, artifact = case_of(name), artifact_of(name, dynamic)
    planned = dataclasses.replace(artifact, program=PlanMemory().run(artifact.program))
    assert any(isinstance(op, Slot) for op in planned.program.ops)
    verify(planned)
    assert compare(artifact.program, planned.program) is None
    plain = py_wrapper.compile(artifact)
    runs = _engines(planned)
    for args, kwargs in calls_of(case, dynamic):
        with torch.no_grad():
            want = plain(*clone_tree(args), **clone_tree(kwargs))
            for run in (*runs, *runs):
                _assert_equal(run(*clone_tree(args), **clone_tree(kwargs)), want)


PASSES = "use-out-variants,split-storages,reorder-for-memory,reuse-in-place,plan-memory,reuse-for-results"


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", MODELS)
def test_what_is_written_in_place(name: str, dynamic: bool) -> None:
    """Also where Inductor was told to write nothing in place."""
    case = case_of(name)
    options = CaptureOptions(inplace_kernels=False)
    shapes = case.dynamic if dynamic else None
    artifact = capture(case.model, case.args, case.kwargs, dynamic_shapes=shapes, options=options)
    planned = dataclasses.replace(artifact, program=run_pipeline(artifact.program, PASSES))
    plain = py_wrapper.compile(artifact)
    for args, kwargs in calls_of(case, dynamic):
        with torch.no_grad():
            want = plain(*clone_tree(args), **clone_tree(kwargs))
            for run in _engines(planned):
                _assert_equal(run(*clone_tree(args), **clone_tree(kwargs)), want)


def test_a_matrix_product_then_a_layer_norm() -> None:
    """The product's storage is what the layer norm writes; Inductor does so itself only with `inplace_kernels`."""
    model = torch.nn.Sequential(
        torch.nn.Linear(64, 64), torch.nn.LayerNorm(64), torch.nn.Linear(64, 8)
    ).eval()
    x = torch.randn(16, 64)
    with torch.no_grad():
        artifact = capture(model, (x,), options=CaptureOptions(inplace_kernels=False))
        reused = dataclasses.replace(artifact, program=run_pipeline(artifact.program, "reuse-in-place"))
        before, after = (program_stats(a.program).memory for a in (artifact, reused))
        assert before.allocated - after.allocated == 16 * 64 * 4
        assert after.peak == before.bound < before.live
        for run in _engines(reused):
            _assert_equal(run(x), py_wrapper.compile(artifact)(x))


def _engines(planned: Artifact) -> list[Callable[..., Any]]:
    return [
        Interpreter(planned, py_wrapper.TORCH_MACHINE, InterpOptions(poison=POISON)),
        py_wrapper.compile(planned, PyOptions(poison=POISON)),
        py_wrapper.compile(planned, PyOptions(persistent_buffers=True)),
        fx_converter.convert(planned),
        fx_converter.compile(planned, FxOptions(persistent_buffers=True)),
    ]


def test_a_tensor_that_stands_for_several_views() -> None:
    """Slots one after the other at the same place, of fixed and of symbolic sizes: results are the caller's own."""
    text = Path("packages/wrapper_ir/tests/lowering/plans/windows_shared_in_pools.wir").read_text()
    artifact = bare_artifact(parse_program(text))
    for run in _engines(artifact):
        for size in (3, 5, 5):
            x, y = torch.randn(8), torch.randn(size)
            first = run(x, y)
            run(torch.zeros(8), torch.zeros(size))
            _assert_equal(first, (x, y))


@pytest.mark.parametrize("name", MODELS)
def test_training(name: str) -> None:
    """Forward and backward graphs of torch.compile, for all sizes: the same loss and gradients, bit for bit."""
    found = []
    for passes in ("", "plan-memory"):
        torch._dynamo.reset()
        torch.manual_seed(0)
        case = ZOO[name]()
        options: dict[str, Any] = {"passes": passes, "cache": False}
        run = torch.compile(case.model, backend="wrapper_ir", dynamic=True, options=options)
        outputs = pytree.tree_leaves(run(*case.args, **(case.kwargs or {})))
        loss = sum(t.square().sum() for t in outputs if isinstance(t, Tensor) and t.is_floating_point())
        assert isinstance(loss, Tensor)
        loss.backward()  # type: ignore[no-untyped-call]  # torch's
        found.append([loss.detach(), *(p.grad for p in case.model.parameters())])
    _assert_equal(*found)


# Any: results of any model
def _assert_equal(got: Any, want: Any) -> None:
    for a, b in zip(pytree.tree_leaves(got), pytree.tree_leaves(want), strict=True):
        assert torch.equal(a, b) if isinstance(b, Tensor) else a == b


@pytest.mark.parametrize("name", MODELS)
def test_what_is_held_stays_near_the_bound(name: str) -> None:
    program = artifact_of(name, False).program
    held = program_stats(PlanMemory().run(program)).memory.peak
    assert held <= 1.01 * program_stats(program).memory.live
