"""Libraries that one torch builds for 2.11 and later run under all of them: `other_torch.py` lists the
programs.

`WRAPPER_IR_TEST_PYTHONS` names the interpreters, separated by `:`, of environments with other versions of
torch.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PYTHONS = [sys.executable, *filter(None, os.environ.get("WRAPPER_IR_TEST_PYTHONS", "").split(":"))]


def _work(python: str, command: str, folder: Path) -> str:
    """Returns the output of the worker."""
    sources = [ROOT, *sorted(ROOT.glob("packages/*/src"))]
    env = {**os.environ, "PYTHONPATH": ":".join(map(str, sources))}
    words = [python, "-m", "tests.cpp.other_torch", command, str(folder)]
    done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=ROOT, env=env)
    assert done.returncode == 0, f"{python}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout


@pytest.mark.conformance
@pytest.mark.parametrize("number", range(len(PYTHONS)))
def test_what_one_torch_builds_all_of_them_run(number: int, tmp_path: Path) -> None:
    built = _work(PYTHONS[number], "build", tmp_path)
    assert "5 models" in built
    for python in PYTHONS:
        assert "0 differ" in _work(python, "run", tmp_path)
