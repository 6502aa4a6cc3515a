"""Programs that stock torch.compile compiles are not refused, and equal eager: sizes that may be 0, or that
are known only at run time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch.export import Dim

import inductor_frontend
import py_wrapper
from tests.common.torch_versions import needs_any_slice
from tests.soundness.dynamic_patterns import PATTERNS, Pattern
from tests.soundness.random_shapes import random_program
from tests.soundness.refusals import outcome, traced

# Any in this file: arguments and results of generated functions.
GROUPS = 7
"""Patterns are compiled in groups, since a group costs little more than one."""


@pytest.fixture(autouse=True)
def _dynamo() -> Iterator[None]:
    torch._dynamo.reset()
    with traced():
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


def _outcomes(seeds: range, *, compare: bool = False) -> Counter[str]:
    found = {seed: outcome(seed, compare=compare) for seed in seeds}
    wrong = [f"seed {n}: {what}\n{random_program(n).text}" for n, what in found.items() if "WRONG" in what]
    assert not wrong, "\n".join(wrong)
    return Counter(found.values())


@pytest.mark.slow
@pytest.mark.parametrize("start", range(0, 16, 8))
def test_random_programs_are_not_refused(start: int, caplog: pytest.LogCaptureFixture) -> None:
    assert _outcomes(range(start, start + 8))["accepted"] > 4
    assert "fault" not in caplog.text  # a program that is accepted is none


@pytest.mark.conformance
@pytest.mark.parametrize("start", range(1000, 4000, 100))
def test_thousands_of_random_programs_are_not_refused(start: int) -> None:
    assert _outcomes(range(start, start + 100))["accepted"] > 80


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_random_programs_equal_eager(seed: int) -> None:
    assert _outcomes(range(seed, seed + 1), compare=True) == {"equal": 1}


@pytest.mark.conformance
@pytest.mark.parametrize("seed", range(100, 200))
def test_more_random_programs_equal_eager(seed: int) -> None:
    _outcomes(range(seed, seed + 1), compare=True)


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
@needs_any_slice
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
