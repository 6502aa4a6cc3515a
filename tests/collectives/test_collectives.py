"""Programs with collectives on two and four processes (gloo).

Interpreter, emitted Python, FX graphs and `torch.compile` with our backend equal eager; training steps equal
one process with all the data. The processes are started once, for all cases. A small program runs in a group
of this process alone. `test_collectives_gpu.py` does the same with NCCL.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import py_wrapper
from py_wrapper import TORCH_MACHINE
from tests.collectives.collective_cases import CASES, HAS_P2P, WORLD, lonely_artifact, lonely_group
from tests.collectives.collective_training import TRAINING
from tests.collectives.processes import run_cases
from tests.common.compare import clone_tree
from wrapper_ir import ir
from wrapper_ir.errors import NotSupportedError
from wrapper_ir_runtime.interp import run


@pytest.mark.slow
def test_two_processes(tmp_path: Path) -> None:
    run_cases(tmp_path, WORLD, [*CASES, "waits_for_inputs", *(["messages"] if HAS_P2P else []), *TRAINING])


@pytest.mark.conformance
def test_two_processes_of_stock(tmp_path: Path) -> None:
    """Stock `torch.compile` equals eager, too: the cases need no special support."""
    run_cases(tmp_path, WORLD, [*CASES], "--ways", "stock")


@pytest.mark.conformance
def test_two_processes_of_cpp(tmp_path: Path) -> None:
    """C++ libraries equal eager."""
    run_cases(tmp_path, WORLD, [*CASES], "--ways", "cpp")


@pytest.mark.slow
def test_four_processes(tmp_path: Path) -> None:
    run_cases(tmp_path, 4, ["coalesced", "uneven_splits"])


@pytest.mark.conformance
@pytest.mark.parametrize("ways", ["", "cpp"])
def test_all_cases_on_four_processes(tmp_path: Path, ways: str) -> None:
    run_cases(tmp_path, 4, [*CASES], "--ways", ways)


def test_alone(tmp_path: Path) -> None:
    """A program captured with a fake group runs in a real one of the same name, and fails without one."""
    artifact, inputs = lonely_artifact()
    started = [
        op.target.partition("::")[2]
        for op in artifact.program.main.body
        if isinstance(op, ir.CollectiveStart)
    ]
    assert len(started) == 7
    compiled = py_wrapper.compile(artifact)
    with lonely_group(tmp_path):
        a = run(artifact, clone_tree(inputs), TORCH_MACHINE)
        b = compiled.boxed(clone_tree(inputs))
    x, w = inputs
    want = (x + w + x @ w, x @ w)
    for got in (a, b):
        assert len(got) == len(want)
        for one, other in zip(got, want, strict=True):
            torch.testing.assert_close(one, other)
    with pytest.raises(NotSupportedError, match="WIR915"):
        compiled.boxed(clone_tree(inputs))
