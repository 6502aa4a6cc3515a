"""Artifacts of all signature cases, loaded by a process that never heard of the frontend."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

import inductor_frontend
import tests.signature.signature_cases  # noqa: F401  # adds its cases to the list
import wrapper_ir
from tests.signature.signature_case import CASES

ROOT = Path(__file__).resolve().parents[2]

SCRIPT = """
import sys
from pathlib import Path

import torch
import py_wrapper, wrapper_ir

folder = Path(sys.argv[1])
artifacts = {path.stem: wrapper_ir.load(path) for path in sorted(folder.glob("*.wir"))}
heard = {"inductor_frontend", "torch._inductor", "torch._functorch.aot_autograd", "tests.signature.signature_cases"}
print("loaded", sorted(heard & set(sys.modules)))
engines = {name: py_wrapper.compile(artifact) for name, artifact in artifacts.items()}
print("compiled", sorted(heard & set(sys.modules)))

from tests.signature.call_effects import differences, observe
from tests.signature.signature_case import CASES

print("missing", sorted(CASES.keys() - engines.keys()))
torch.set_grad_enabled(False)
for name, engine in engines.items():
    case = CASES[name]
    torch.manual_seed(5)
    wanted = observe(case.model(), case.make, case.calls)
    torch.manual_seed(5)
    print(name, sorted(differences(wanted, observe(engine, case.make, case.calls)) - set(case.ours)))
print("after", sorted({"inductor_frontend"} & set(sys.modules)))
"""


@pytest.mark.slow
def test_all_cases(tmp_path: Path) -> None:
    """Loading a case's artifact imports the classes that its signature names, and nothing that compiles."""
    for name, case in CASES.items():
        torch.manual_seed(0)
        args, kwargs = case.make()
        artifact = inductor_frontend.capture(case.model(), args, kwargs, dynamic_shapes=case.dynamic)
        wrapper_ir.save(artifact, tmp_path / f"{name}.wir")
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", SCRIPT, str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    # Classes of the cases are imported for the signatures that name them, once these are to be called.
    assert lines[:2] == ["loaded []", "compiled ['tests.signature.signature_cases']"]
    assert lines[2:] == ["missing []", *(f"{name} []" for name in sorted(CASES)), "after []"]
