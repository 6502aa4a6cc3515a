"""The example of a serving system: pieces that one process compiled run in another one, from another folder,
with nothing compiled there.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

_EXAMPLE = Path(__file__).resolve().parents[2] / "examples/serving_pieces/serving_pieces.py"


def _run(task: str, folder: Path, cache: Path) -> str:
    """Returns the output of the example."""
    environment = {**os.environ, "WRAPPER_IR_CACHE_DIR": str(cache)}
    command = [sys.executable, str(_EXAMPLE), task, str(folder)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_pieces_are_served_by_another_process(tmp_path: Path) -> None:
    pieces, elsewhere = tmp_path / "pieces", tmp_path / "far/away"
    told = _run("compile", pieces, tmp_path / "first")
    assert told.startswith("3 pieces, 3 lowered")
    assert not told.endswith(" 0 entries of the cache written\n")
    elsewhere.parent.mkdir()
    pieces.rename(elsewhere)
    assert _run("serve", elsewhere, tmp_path / "second") == (
        "3 pieces, 0 lowered, 0 entries of the cache written\n"
    )
