"""Every op in the interpreter and in emitted Python: both compute the expected results, with and without
poison."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from packages.py_wrapper.tests.py_case import Case, artifact_of, find_runtime
from packages.py_wrapper.tests.py_programs import CASES
from torch import Tensor

import py_wrapper
import wrapper_ir
from py_wrapper import TORCH_MACHINE, PyOptions
from wrapper_ir import ir
from wrapper_ir_runtime.interp import InterpOptions, run

IDS = [case.name for case in CASES]


def test_cases_cover_every_op() -> None:
    used = {type(op) for case in CASES for f in case.program.functions for op in f.body}
    # other tests: collectives in `test_py_collectives.py`, memory pools in `tests/ops/test_scopes.py`
    assert used | {ir.CollectiveStart, ir.EnterMemoryPool, ir.Wait} == set(ir.OPS)


def results_of(engine: str, case: Case, poison: int | None, inputs: list[Any]) -> tuple[Any, ...]:
    artifact = artifact_of(case)
    if engine == "interpreter":
        options = InterpOptions(poison=poison, find_runtime=find_runtime)
        return run(artifact, inputs, TORCH_MACHINE, options)
    compiled = py_wrapper.compile(
        artifact, PyOptions(name=case.name, poison=poison, find_runtime=find_runtime)
    )
    results: tuple[Any, ...] = compiled.boxed(inputs)
    return results


def clones(inputs: list[Any]) -> list[Any]:
    return [x.clone() if isinstance(x, Tensor) else x for x in inputs]


def assert_equal(got: tuple[Any, ...], want: tuple[Any, ...]) -> None:
    assert len(got) == len(want)
    for a, b in zip(got, want, strict=True):
        if isinstance(b, Tensor):
            torch.testing.assert_close(a, b)
        else:
            assert (type(a), a) == (type(b), b)


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_results_in_persistent_buffers(case: Case) -> None:
    """Also for a second call, which finds the content of the first one."""
    options = PyOptions(name=case.name, persistent_buffers=True, find_runtime=find_runtime)
    compiled = py_wrapper.compile(artifact_of(case), options)
    for _ in range(1 if case.constants else 2):
        inputs = case.inputs()
        want = case.expected(*clones(inputs))
        assert_equal(compiled.boxed(inputs), want)


@pytest.mark.parametrize("poison", [None, 0x7B])
@pytest.mark.parametrize("engine", ["interpreter", "python"])
@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_results(case: Case, engine: str, poison: int | None) -> None:
    inputs = case.inputs()
    want = case.expected(*clones(inputs))
    flat = list(inputs)
    assert_equal(results_of(engine, case, poison, flat), want)
    assert flat == [], "the list must be emptied"
    if case.after is not None:
        count = case.after.__code__.co_argcount
        assert_equal(tuple(inputs[:count]), case.after(*inputs[:count]))


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_loops_and_branches_return_storage_of_their_own(case: Case) -> None:
    """Writing to a result must not reach an input, unless the program returns the input."""
    if not case.name.startswith(("while", "cond")):
        return
    for engine in ("interpreter", "python"):
        inputs = case.inputs()
        keys = {TORCH_MACHINE.storage_key(x) for x in inputs if isinstance(x, Tensor)}
        results = results_of(engine, case, None, [*inputs])
        if case.name != "cond":  # whose owned input is returned
            assert not keys & {TORCH_MACHINE.storage_key(x) for x in results}


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_cases_are_valid(case: Case) -> None:
    wrapper_ir.verify(case.program)
