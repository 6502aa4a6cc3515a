"""What stock torch.compile compiles is not refused, and equals eager: sizes that may be 0, or that only a run tells."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.export import Dim

import inductor_frontend
import py_wrapper
from tests.soundness.dynamic_patterns import PATTERNS, Pattern
from tests.soundness.random_shapes import INPUTS, RandomProgram, random_program
from wrapper_ir import check
from wrapper_ir.artifact import Artifact
from wrapper_ir.guarded import NOT_GUARDED, Guarded
from wrapper_ir.passes import insert_checks
from wrapper_ir.protocols import CompiledProgram

# Any in this file: arguments and results of made-up functions.
GROUPS = 7
"""Patterns are compiled in groups, since a group costs little more than one."""


@pytest.fixture(autouse=True)
def _dynamo() -> Iterator[None]:
    torch._dynamo.reset()
    flags = {"capture_scalar_outputs": True, "capture_dynamic_output_shape_ops": True}
    with torch._dynamo.config.patch(flags):
        yield
    torch._dynamo.reset()


def _group(number: int) -> Pattern:
    """Every so many-th pattern as one function."""
    chosen = PATTERNS[number::GROUPS]
    counts = [len(args) for _, args in chosen]

    def together(*args: Any) -> dict[str, Any]:
        rest, results = list(args), {}
        for (function, _), count in zip(chosen, counts):
            results[function.__name__] = function(*rest[:count])
            del rest[:count]
        return results

    return together, tuple(x.clone() for _, args in chosen for x in args)


@pytest.mark.slow
@pytest.mark.parametrize("number", range(GROUPS))
def test_backend(number: int) -> None:
    function, args = _group(number)
    compiled = torch.compile(function, backend="wrapper_ir", dynamic=True, fullgraph=True)
    torch.testing.assert_close(compiled(*args), function(*args))


@pytest.mark.conformance
@pytest.mark.parametrize("number", range(GROUPS))
def test_stock(number: int) -> None:
    """The patterns are ones that stock compiles."""
    function, args = _group(number)
    compiled = torch.compile(function, backend="inductor", dynamic=True, fullgraph=True)
    torch.testing.assert_close(compiled(*args), function(*args))


class _Lowered(Exception):
    """A program is there; nothing is compiled."""


class _Probe:
    """An emitter that keeps the program and stops."""

    name = "probe"

    def compile(self, artifact: Artifact, guarded: Guarded = NOT_GUARDED) -> CompiledProgram:
        checked = insert_checks(artifact.program, guarded)
        assert check(checked) == ()
        assert insert_checks(checked, guarded) is checked
        raise _Lowered

    def emit(self, artifact: Artifact) -> str:
        raise NotImplementedError

    def write(self, artifact: Artifact, folder: Path) -> tuple[Path, ...]:
        raise NotImplementedError


def _refusal(program: RandomProgram) -> Exception | None:
    """Why the backend refuses a program; None where it does not."""
    torch._dynamo.reset()
    options: Any = {"emitter": _Probe(), "cache": False}  # an emitter is more than torch foresees
    compiled = torch.compile(program.function(), backend="wrapper_ir", dynamic=True, options=options)
    try:
        compiled(*INPUTS[0])
    except Exception as error:  # whatever upstream wraps it in
        seen: BaseException | None = error
        while seen is not None:
            if isinstance(seen, _Lowered):
                return None
            seen = seen.__cause__ or seen.__context__
        return error
    raise AssertionError("nothing was compiled")


def _assert_not_refused(seed: int) -> None:
    program = random_program(seed)
    why = _refusal(program)
    if why is None:
        return
    torch._dynamo.reset()
    try:
        torch.compile(program.function(), backend="inductor", dynamic=True)(*INPUTS[0])
    except Exception:  # stock refuses it too, in words of its own
        return
    raise AssertionError(f"seed {seed}: {why}\n{program.text}") from why


@pytest.mark.slow
@pytest.mark.parametrize("start", range(0, 32, 8))
def test_random_programs_are_not_refused(start: int) -> None:
    for seed in range(start, start + 8):
        _assert_not_refused(seed)


@pytest.mark.conformance
@pytest.mark.parametrize("start", range(1000, 2000, 25))
def test_thousands_of_random_statements_are_not_refused(start: int) -> None:
    for seed in range(start, start + 25):
        _assert_not_refused(seed)


def _assert_equals_eager(program: RandomProgram) -> None:
    torch._dynamo.reset()
    function = program.function()
    compiled = torch.compile(program.function(), backend="wrapper_ir", dynamic=True)
    for args in INPUTS:
        torch.testing.assert_close(compiled(*args), function(*args), msg=lambda m: f"{m}\n{program.text}")


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_random_programs_equal_eager(seed: int) -> None:
    _assert_equals_eager(random_program(seed))


@pytest.mark.conformance
@pytest.mark.parametrize("seed", range(100, 200))
def test_more_random_programs_equal_eager(seed: int) -> None:
    program = random_program(seed)
    if _refusal(program) is None:
        _assert_equals_eager(program)


CAPTURED = (
    "slice_diff",
    "ones_diff",
    "stack1_diff",
    "stack1_mask",
    "cat1_mask",
    "pad_neg",
    "window",
    "stack1_nz",
)


@pytest.mark.slow
def test_captured() -> None:
    chosen = {f.__name__: (f, args) for f, args in PATTERNS if f.__name__ in CAPTURED}
    assert set(chosen) == set(CAPTURED)

    def together(*args: Any) -> list[Any]:
        rest, results = list(args), []
        for function, own in chosen.values():
            results.append(function(*rest[: len(own)]))
            del rest[: len(own)]
        return results

    args = tuple(x.clone() for _, own in chosen.values() for x in own)
    shapes = tuple(dict.fromkeys(range(x.dim()), Dim.AUTO) for x in args)
    artifact = inductor_frontend.capture(together, args, dynamic_shapes=(shapes,))
    torch.testing.assert_close(py_wrapper.compile(artifact)(*args), together(*args))
