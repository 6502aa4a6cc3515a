"""Random programs after `cuda-graphs`, on a CPU treated as a device that captures: valid, and with the same
results.
"""

from __future__ import annotations

import dataclasses
import random

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import py_wrapper
from tests.graphs.fake_graphs import let_the_cpu_capture
from tests.soundness.flat_inputs import flat_inputs
from wrapper_ir.artifact import Artifact
from wrapper_ir.verifier.insert_checks import insert_checks
from wrapper_ir_passes import run_pipeline
from wrapper_ir_runtime.interp import InterpOptions, Interpreter
from wrapper_ir_tools.testing import RandomOptions, random_artifact

SPECS = (
    "cuda-graphs",
    "cuda-graphs{least=1}",
    "cuda-graphs{collectives=true,unbacked=true}",
    "plan-memory{slack=100},cuda-graphs{least=1}",
    "cuda-graphs,plan-memory",
    "use-out-variants,cuda-graphs{least=1,own_memory=true},plan-memory",
    "use-out-variants,reuse-in-place,cuda-graphs{least=1},plan-memory",
)


@pytest.fixture(autouse=True)
def cpu_captures(monkeypatch: pytest.MonkeyPatch) -> None:
    let_the_cpu_capture(monkeypatch)


def _run(artifact: Artifact, seed: int) -> list[object]:
    """Returns results, arguments and mutable constants after a run."""
    inputs = flat_inputs(seed)
    options = InterpOptions(poison=0x7B, debug=lambda op, values: None)
    interpreter = Interpreter(artifact, py_wrapper.TORCH_MACHINE, options)
    results = interpreter.boxed(list(inputs))
    state = [interpreter.constants[c.value] for c in artifact.program.constants if c.mutable]
    kept = [x for i, x in enumerate(inputs) if i != 3]  # the fourth one is donated
    return [x.clone() if isinstance(x, torch.Tensor) else x for x in (*results, *kept, *state)]


def _same(a: object, b: object) -> bool:
    if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
        return a.dtype is b.dtype and a.shape == b.shape and torch.equal(a.nan_to_num(), b.nan_to_num())
    return a == b or (a != a and b != b)


def _check(seed: int, size: int, spec: str) -> int:
    """Returns the number of regions of a program, which must run as before."""
    artifact = random_artifact(random.Random(seed), size, RandomOptions(executable=True, hostile=False))
    program = run_pipeline(artifact.program, spec)
    runs = [
        _run(dataclasses.replace(artifact, program=insert_checks(p)), seed)
        for p in (artifact.program, program)
    ]
    assert len(runs[0]) == len(runs[1])
    assert all(map(_same, *runs))
    return len([f for f in program.functions if f.replayable])


@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 2**32), st.integers(5, 40), st.sampled_from(SPECS))
def test_runs(seed: int, size: int, spec: str) -> None:
    _check(seed, size, spec)


def test_there_are_regions() -> None:
    assert sum(_check(seed, 30, "cuda-graphs{least=1}") for seed in range(3)) > 6
