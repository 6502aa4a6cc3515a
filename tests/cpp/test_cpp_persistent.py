"""Memory that libraries keep across calls: results belong to the caller, and calls are isolated."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from packages.py_wrapper.tests.persistent_program import (
    PROGRAM,
    assert_right,
    assert_threads_are_right,
    expected,
)

import cpp_wrapper
from cpp_wrapper._compat import open_runner
from cpp_wrapper.library.python import LoadedProgram
from tests.cpp.cpp_case import FAST
from wrapper_ir import parse_program
from wrapper_ir.analysis.memo import Analyses
from wrapper_ir.artifact import Artifact, bare_artifact
from wrapper_ir_passes.memory.persistent_pools import with_persistent_pools

# `add_` has a Scalar, which torch's stable dispatcher does not accept
_SUM, _COPY = (
    "add_.Tensor(Tensor(a!) self, Tensor other, *, Scalar alpha=1)",
    "copy_(Tensor(a!) self, Tensor src, bool non_blocking=False)",
)
TEXT = PROGRAM.replace(_SUM, _COPY).replace("aten::add_.Tensor(%counts", "aten::copy_(%counts")
PERSISTENT = replace(FAST, persistent_buffers=True)


def _planned() -> Artifact:
    """A planned program whose calls keep tensors but no memory."""
    program = parse_program(TEXT)
    return bare_artifact(with_persistent_pools(program, Analyses(program)))


@pytest.fixture(scope="module", params=["held", "planned"])
def library(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    is_held = request.param == "held"
    artifact, options = (bare_artifact(parse_program(TEXT)), PERSISTENT) if is_held else (_planned(), FAST)
    return cpp_wrapper.build(artifact, tmp_path_factory.mktemp("persistent") / "m.so", options)


@pytest.fixture
def program(library: Path) -> LoadedProgram:
    return cpp_wrapper.load(library)


def test_calls_find_the_buffers_of_earlier_ones_and_results_are_the_callers(program: LoadedProgram) -> None:
    first = assert_right(program)
    before = [t.clone() for t in first]
    assert_right(program)
    assert all(map(torch.equal, first, before))


@pytest.mark.parametrize("first_mode", [True, False])
def test_modes_of_inference_share_no_buffers(program: LoadedProgram, first_mode: bool) -> None:
    for mode in (first_mode, not first_mode, first_mode):
        with torch.inference_mode(mode):
            assert_right(program)


def test_planned_calls_allocate_pools_and_keep_tensors_over_them() -> None:
    program = str(cpp_wrapper.emit(_planned()))
    made, _, calls = program.partition("struct Main")
    blocks = re.findall(r"resize\(k\[(\w+)\], 0\);", made)
    resized = re.findall(r"resize\(k\[(\w+)\], (\d+)\);", calls)
    assert blocks
    assert [name for name, nbytes in resized if nbytes != "0"] == blocks
    assert sorted(name for name, nbytes in resized if nbytes == "0") == sorted(blocks)


def test_threads_have_buffers_of_their_own(program: LoadedProgram) -> None:
    assert_threads_are_right(program)


def test_torchs_runner_holds_them_too_and_goes_on_after_a_failure(library: Path) -> None:
    runner = open_runner(library)
    x, w = torch.randn(4, 4), torch.randn(4, 4)
    first = runner.run([x, w])
    with pytest.raises(RuntimeError):  # the call has borrowed buffers, and does not return them
        runner.run([x, torch.randn(4, 5)])
    again = runner.run([w, x])
    torch.testing.assert_close(tuple(first), expected(x, w))
    torch.testing.assert_close(tuple(again), expected(w, x))
