"""`wir` on a real model: capture, verify, statistics, transform, emit, run.

Each step on the file of the last.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

MODEL = """
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up = torch.nn.Linear(8, 16)
        self.down = torch.nn.Linear(16, 8)

    def forward(self, x, scale=1.0):
        return x + self.down(torch.relu(self.up(x))) * scale

def make():
    torch.manual_seed(0)
    batch = torch.export.Dim("batch", min=2, max=64)
    return Net().eval(), (torch.randn(4, 8),), {}, {"dynamic_shapes": {"x": {0: batch}}}
"""


def wir(*args: str | Path, cwd: Path, status: int = 0) -> str:
    command = [str(Path(sys.executable).parent / "wir"), *(str(a) for a in args)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=cwd)
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
def test_capture_to_run(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(MODEL)
    assert "ops" in wir("capture", "net:make", "-o", "m.wir", cwd=tmp_path)
    assert wir("verify", "m.wir", cwd=tmp_path).startswith("ok: ")
    assert wir("compare", "m.wir", "--with", "eager", cwd=tmp_path).startswith("no difference: ")
    text = wir("print", "m.wir", cwd=tmp_path)
    (tmp_path / "m.txt").write_text(text)
    assert wir("diff", "m.wir", "m.txt", cwd=tmp_path) == ""
    assert "peak bytes held" in wir("stats", "m.wir", cwd=tmp_path)
    wir("opt", "m.wir", "--pass", "insert-finite-checks", "-o", "checked.wir", cwd=tmp_path)
    assert "+" in wir("diff", "m.wir", "checked.wir", cwd=tmp_path, status=1)
    symbol = text.split("symbol ")[1].split()[0]
    for engine in ("interpreter", "python"):
        run = wir("run", "checked.wir", "--with", engine, "--hint", f"{symbol}=16", cwd=tmp_path)
        assert "tensor [16, 8]" in run
    wir("run", "checked.wir", "--hint", "nonsense=3", cwd=tmp_path, status=2)
    native = Path(wir("build", "m.wir", "-o", "m.so", "--runtime", "native", cwd=tmp_path).strip())
    assert (tmp_path / native).stat().st_size < 1_000_000
    wir("build", "m.wir", "-o", "other.so", "--runtime", "jax", cwd=tmp_path, status=2)
    assert not (tmp_path / "other.so").exists()
    files = wir("emit", "m.wir", "--to", "python", "-o", "out", cwd=tmp_path).splitlines()
    main = Path(files[0]) if Path(files[0]).is_absolute() else tmp_path / files[0]
    done = subprocess.run(
        [sys.executable, str(main), "--repeat", "3"],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ,
    )
    assert done.returncode == 0, done.stderr


def test_capture_reports_what_it_cannot_do(tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text("def make():\n    return None\n")
    command = [str(Path(sys.executable).parent / "wir"), "capture", "bad:make", "-o", "m.wir"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 2
    assert "must return (model, args" in done.stderr
    assert not (tmp_path / "m.wir").exists()
