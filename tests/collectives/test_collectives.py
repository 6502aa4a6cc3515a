"""Programs with collectives on two processes (gloo): interpreter, emitted Python, FX graphs and `torch.compile` with our
backend give what eager gives; training steps give what one process with all the data gives.

The processes are started once, for all cases. A small program runs in a group of this process alone.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import py_wrapper
from py_wrapper import TORCH_MACHINE
from tests.collectives.collective_cases import CASES, HAS_P2P, WORLD, lonely_artifact, lonely_group
from tests.collectives.collective_training import TRAINING
from tests.collectives.processes import WORKER, end, finish, outcome, start
from tests.common.compare import clone_tree
from wrapper_ir.errors import NotSupportedError
from wrapper_ir.interp import run
from wrapper_ir.ops import CollectiveStart

"""Seconds after which the processes are ended, on a machine that is very busy."""


@pytest.mark.slow
def test_two_processes(tmp_path: Path) -> None:
    run_workers(tmp_path, [*CASES, "waits_for_inputs", *(["messages"] if HAS_P2P else []), *TRAINING])


@pytest.mark.conformance
def test_two_processes_of_stock(tmp_path: Path) -> None:
    """Stock `torch.compile` gives what eager gives, too: the cases ask for nothing unusual."""
    run_workers(tmp_path, [*CASES], "--stock")


def run_workers(tmp_path: Path, names: list[str], *args: str) -> None:
    """Runs the cases of these names on two processes."""
    workers = [start(rank, tmp_path, WORKER, *args) for rank in range(WORLD)]
    try:
        finish(workers)
    finally:
        for worker in workers:
            end(worker)
    for rank in range(WORLD):
        found = outcome(tmp_path, rank)
        log = (tmp_path / f"rank{rank}.log").read_text(encoding="utf-8", errors="replace")[-3000:]
        failures = [f"{name}: {case['failure']}" for name, case in found.items() if case["failure"]]
        assert not failures, f"rank {rank}\n" + "\n".join(failures)
        assert list(found) == names, f"rank {rank} stopped behind {[*found][-1:]}\n{log}"
    assert [w.returncode for w in workers] == [0] * WORLD


def test_alone(tmp_path: Path) -> None:
    """What was captured with a fake group runs in a real one of the same name, and in none."""
    artifact, inputs = lonely_artifact()
    started = [
        op.target.partition("::")[2] for op in artifact.program.main.body if isinstance(op, CollectiveStart)
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
