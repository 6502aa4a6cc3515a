"""Planned programs equal unplanned ones, bit for bit, in every engine; poisoned slots change nothing."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._higher_order_ops.while_loop import while_loop
from torch.utils import _pytree as pytree

import py_wrapper
from inductor_frontend import CaptureOptions, capture
from tests.common.compare import clone_tree
from tests.common.zoo import ZOO
from tests.models.model_cases import artifact_of, calls_of, case_of
from tests.models.planned_everywhere import PlannedEverywhere, engines
from tests.models.training_cases import step, training_case
from wrapper_ir import ir, parse_program, verify
from wrapper_ir.artifact import bare_artifact
from wrapper_ir_passes import MEMORY_PASSES, run_pipeline
from wrapper_ir_passes.analysis.stats import program_stats
from wrapper_ir_passes.memory.plan_memory import PlanMemory
from wrapper_ir_passes.translation import compare

DONATED = ",".join(
    f"{name}{{donated=true}}" if name in ("reuse-in-place", "plan-memory", "reuse-for-results") else name
    for name in MEMORY_PASSES.split(",")
)
QUICK = {"moe"}
"""Models whose proof is part of `make test`; all are part of `make conformance`."""
MODELS = [pytest.param(n, marks=() if n in QUICK else pytest.mark.conformance) for n in ZOO]
SIZES = [
    pytest.param(n, dynamic, marks=() if dynamic and n in QUICK else pytest.mark.conformance)
    for n in ZOO
    for dynamic in (False, True)
]
"""Names, and whether sizes are symbolic."""


@pytest.mark.parametrize(("name", "dynamic"), SIZES)
def test_in_every_engine(name: str, dynamic: bool) -> None:
    case, artifact = case_of(name), artifact_of(name, dynamic)
    planned = dataclasses.replace(artifact, program=PlanMemory().run(artifact.program))
    assert any(isinstance(op, ir.Slot) for op in planned.program.ops)
    verify(planned)
    assert compare(artifact.program, planned.program) is None
    plain = py_wrapper.compile(artifact)
    runs = engines(planned)
    for args, kwargs in calls_of(case, dynamic):
        with torch.no_grad():
            want = plain(*clone_tree(args), **clone_tree(kwargs))
            for run in (*runs, *runs):
                _assert_equal(run(*clone_tree(args), **clone_tree(kwargs)), want)


@pytest.mark.slow
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", MODELS)
def test_what_is_written_in_place(name: str, dynamic: bool) -> None:
    """Also if Inductor's in-place kernels are disabled."""
    case = case_of(name)
    options = CaptureOptions(inplace_kernels=False)
    shapes = case.dynamic if dynamic else None
    artifact = capture(case.model, case.args, case.kwargs, dynamic_shapes=shapes, options=options)
    planned = dataclasses.replace(artifact, program=run_pipeline(artifact.program, MEMORY_PASSES))
    plain = py_wrapper.compile(artifact)
    for args, kwargs in calls_of(case, dynamic):
        with torch.no_grad():
            want = plain(*clone_tree(args), **clone_tree(kwargs))
            for run in engines(planned):
                _assert_equal(run(*clone_tree(args), **clone_tree(kwargs)), want)


def test_a_matrix_matmul_then_a_layer_norm() -> None:
    """The layer norm writes over the matmul's storage.

    Inductor does so itself only with `inplace_kernels`.
    """
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
        for run in engines(reused):
            _assert_equal(run(x), py_wrapper.compile(artifact)(x))


def test_a_tensor_that_stands_for_several_views() -> None:
    """Slots one after the other at the same place, of fixed and of symbolic sizes: results are the caller's
    own.
    """
    text = Path("packages/wrapper_ir_lowering/tests/lowering/plans/windows_shared_in_pools.wir").read_text()
    artifact = bare_artifact(parse_program(text))
    for run in engines(artifact):
        for size in (3, 5, 5):
            x, y = torch.randn(8), torch.randn(size)
            first = run(x, y)
            run(torch.zeros(8), torch.zeros(size))
            _assert_equal(first, (x, y))


@pytest.mark.slow
@pytest.mark.parametrize(("name", "dynamic"), SIZES)
def test_training(name: str, dynamic: bool) -> None:
    """Forward and backward graphs of torch.compile after all passes, donated activations written over: in
    each engine, the bits of the unplanned graph.
    """
    torch._dynamo.reset()
    case, emitter = training_case(name), PlannedEverywhere(DONATED)
    options: dict[str, Any] = {"emitter": emitter, "cache": False}  # Any: torch's type has no emitters
    with torch._dynamo.config.patch(allow_rnn=True):  # else recurrent modules stay in eager mode
        step(torch.compile(case.model, backend="wrapper_ir", dynamic=dynamic, options=options), case)
    assert emitter.graphs >= 2
    assert emitter.slots
    assert emitter.runs >= 11 * emitter.graphs


class _Flow(torch.nn.Module):
    """A branch and a loop, whose steps have intermediate results."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.c = (torch.nn.Parameter(torch.randn(32, 32)) for _ in range(3))

    def forward(self, n: Tensor, x: Tensor) -> Tensor:
        a, b, c = self.a, self.b, self.c
        branches: Any = (  # Any: torch's types for branches take no lambdas
            lambda x: torch.tanh(torch.relu(x @ a) @ b + 1) @ c,
            lambda x: torch.softmax(x @ a, -1) @ b,
        )
        y = torch.cond(x.sum() > 0, branches[0], branches[1], (x,))
        body: Any = lambda i, y: (i + 1, torch.tanh(torch.relu(y @ a) @ b) @ c)  # noqa: E731 - as users write it
        loop: Any = while_loop  # torch leaves it untyped
        result: Tensor = loop(lambda i, y: i < n, body, (torch.zeros((), dtype=torch.int64), y))[1]
        return result.sum(-1)


@pytest.mark.parametrize("dynamic", [pytest.param(False, marks=pytest.mark.conformance), True])
def test_branches_and_loops(dynamic: bool) -> None:
    """Their slots are in memory of main, the same in each trip."""
    model, x = _Flow().eval(), torch.randn(8, 32)
    shapes = (None, {0: torch.export.Dim("b", min=2, max=64)}) if dynamic else None
    with torch.no_grad():
        artifact = capture(model, (torch.tensor(3), x), dynamic_shapes=shapes)
        planned = dataclasses.replace(artifact, program=run_pipeline(artifact.program, MEMORY_PASSES))
        lent = [p for f in planned.program.functions for p in f.params if ir.is_storage(p.value)]
        assert len(lent) >= 4  # of two branches, a condition and a body
        plain, runs = py_wrapper.compile(artifact), engines(planned)
        for args in ((torch.tensor(3), x), (torch.tensor(0), -x), (torch.tensor(2), x[:5] if dynamic else x)):
            want = plain(*args)
            for run in (*runs, *runs):
                _assert_equal(run(*args), want)


# Any: results of any model
def _assert_equal(got: Any, want: Any) -> None:
    for a, b in zip(pytree.tree_leaves(got), pytree.tree_leaves(want), strict=True):
        assert torch.equal(a, b) if isinstance(b, Tensor) else a == b


@pytest.mark.parametrize("name", MODELS)
def test_what_is_held_stays_near_the_bound(name: str) -> None:
    program = artifact_of(name, False).program
    held = program_stats(PlanMemory().run(program)).memory.peak
    assert held <= 1.01 * program_stats(program).memory.live
