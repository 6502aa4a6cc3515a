"""Soundness under corruption: a program with one random change is refused with a code, or runs to its end with the
same results in the interpreter and in emitted Python (uninitialised memory filled with a fixed pattern).

Runs in processes of their own, so that a crash is a failure of the test and not of the test run.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.soundness.soundness_programs import PROGRAMS

MODELS = ("bert", "convnet", "lstm", "mlp", "moe", *PROGRAMS)
WORKER = Path(__file__).parent / "soundness_worker.py"


def run_worker(model: str, count: int, seed: int) -> str:
    """The worker's last line; a crash or an unsound case fails with what it printed."""
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", str(WORKER), model, str(count), str(seed)],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[2],
    )
    assert done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout.splitlines()[-1]


@pytest.mark.slow
@pytest.mark.parametrize("model", MODELS)
def test_single_corruptions(model: str) -> None:
    assert "80 corruptions" in run_worker(model, 80, seed=11)


@pytest.mark.conformance
@pytest.mark.parametrize("model", MODELS)
def test_many_single_corruptions(model: str) -> None:
    assert "1000 corruptions" in run_worker(model, 1000, seed=12)
