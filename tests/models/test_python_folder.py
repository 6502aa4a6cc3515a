"""A captured model as a folder of Python: a separate process runs it, without the packages that built it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

import inductor_frontend
import py_wrapper
from tests.common.zoo import mlp


@pytest.mark.slow
def test_a_captured_folder_runs_alone(tmp_path: Path) -> None:
    case = mlp()
    artifact = inductor_frontend.capture(case.model, case.args, dynamic_shapes=case.dynamic)
    main, *others = py_wrapper.write(artifact, tmp_path, py_wrapper.PyOptions(name="mlp"))
    assert {p.name for p in others} >= {"kernels.json", "constants.safetensors"}
    assert case.other is not None
    (x,) = case.other[0]
    torch.save(x, tmp_path / "x.pt")
    script = """
import sys, torch, mlp
torch.save(mlp.forward(torch.load("x.pt")), "y.pt")
assert not {"py_wrapper", "inductor_frontend"} & set(sys.modules)
"""
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    with torch.no_grad():
        torch.testing.assert_close(torch.load(tmp_path / "y.pt"), case.model(x), rtol=1e-4, atol=1e-5)
    done = subprocess.run(
        [sys.executable, main.name, "--repeat", "5"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "5 calls: best" in done.stdout
