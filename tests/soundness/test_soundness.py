"""Soundness under corruption: a program with one random change is refused with a code, or runs with equal
results in the interpreter and in emitted Python.

Uninitialised memory is filled with a fixed pattern. Separate processes run the cases, so that a crash is a
failure of the test and not of the test run.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.soundness.soundness_programs import PROGRAMS

PROCESSES = 2
"""Number of processes that share the programs in `make test`: to start one costs as much as the corruptions
of one program.
"""
MODELS = ("bert", "convnet", "lstm", "mlp", "moe", *PROGRAMS)
WORKER = Path(__file__).parent / "soundness_worker.py"


def assert_sound(models: Sequence[str], count: int, seed: int) -> None:
    """Fails for a crash or an unsound case with the worker's last output."""
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", str(WORKER), str(count), str(seed), *models],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[2],
    )
    assert done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    said = [line.partition(":")[0] for line in done.stdout.splitlines() if " corruptions of " in line]
    assert said == [f"{count} corruptions of {model}" for model in models]


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PROCESSES))
def test_single_corruptions(part: int) -> None:
    assert_sound(MODELS[part::PROCESSES], 80, seed=11)


@pytest.mark.conformance
@pytest.mark.parametrize("model", MODELS)
def test_many_single_corruptions(model: str) -> None:
    assert_sound([model], 1000, seed=12)
