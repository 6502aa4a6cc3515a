"""Every loader refuses an artifact of another rank before anything runs; this process is a separate group."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import cpp_wrapper
import fx_converter
import py_wrapper
from py_wrapper import TORCH_MACHINE
from tests.collectives.collective_cases import lonely_group
from tests.cpp.collective_programs import HEAD, REDUCED
from tests.cpp.cpp_case import FAST
from wrapper_ir import load, parse_program, save
from wrapper_ir.artifact import Artifact, bare_artifact
from wrapper_ir.artifact.group_ranks import GroupRanks, with_group_ranks
from wrapper_ir.errors import ExecutionError
from wrapper_ir_runtime.interp import Interpreter
from wrapper_ir_torch import compare_ranks, own_ranks

# Any in this file: programs of any signature
Run = Callable[..., Any]


def _interpreted(path: Path) -> Run:
    return Interpreter(load(path), TORCH_MACHINE)


def _in_python(path: Path) -> Run:
    return py_wrapper.compile(load(path))


def _as_graph(path: Path) -> Run:
    fx_converter.save(fx_converter.convert(load(path)), path.with_suffix(".graph.wir"))
    return fx_converter.load(path.with_suffix(".graph.wir"))


def _in_cpp(path: Path) -> Run:
    return cpp_wrapper.load(cpp_wrapper.build(load(path), path.with_suffix(".so"), FAST))


LOADERS = (_interpreted, _in_python, _as_graph, _in_cpp)


def _artifact(*ranks: GroupRanks) -> Artifact:
    return with_group_ranks(bare_artifact(parse_program(f"wir 0.5\ntarget cpu\n{HEAD}{REDUCED}")), ranks)


@pytest.mark.parametrize("load_file", LOADERS)
def test_another_ranks_file_is_refused(load_file: Callable[[Path], Run], tmp_path: Path) -> None:
    x = torch.arange(4.0)
    own = GroupRanks(group="0", size=1, ranks=(0,))
    other = GroupRanks(group="0", size=1, ranks=(1,), differences=((0, "it has `a`, rank 0 has `b`"),))
    save(_artifact(own), tmp_path / "own.wir")
    save(_artifact(other), tmp_path / "other.wir")
    with lonely_group(tmp_path):
        torch.testing.assert_close(load_file(tmp_path / "own.wir")(x.clone())[0], x)
        given = x.clone()
        with pytest.raises(ExecutionError, match=r"for rank 1, and this is rank 0: it has `a`") as caught:
            load_file(tmp_path / "other.wir")(given)
    assert caught.value.code == "WIR936"
    assert "load what rank 0 has saved" in caught.value.hint


def test_a_group_of_another_size_is_refused(tmp_path: Path) -> None:
    artifact = _artifact(GroupRanks(group="0", size=4, ranks=(0, 1, 2, 3)))
    with (
        lonely_group(tmp_path),
        pytest.raises(ExecutionError, match=r"WIR936.*of 4 processes, and here it has 1"),
    ):
        py_wrapper.compile(artifact)(torch.arange(4.0))


def test_a_capture_is_for_its_own_rank_and_one_that_was_compared_for_all(tmp_path: Path) -> None:
    with lonely_group(tmp_path):
        assert own_ranks(("0", "another")) == (GroupRanks(group="0", size=1, ranks=(0,)),)
        compared = compare_ranks(_artifact())
        torch.testing.assert_close(py_wrapper.compile(compared)(torch.ones(4))[0], torch.ones(4))
    assert own_ranks(("0",)) == ()
