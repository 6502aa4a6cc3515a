"""The debugging commands on artifacts for CUDA: programs of operators, and a captured model with Triton
kernels.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import inductor_frontend
from tests.debugger import fault_models
from tests.debugger.command_case import PROGRAM, STEADY, wir
from tests.debugger.faults import wrong_stride
from wrapper_ir import parse_program, save
from wrapper_ir.artifact import Artifact, bare_artifact

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]


@pytest.fixture(scope="module")
def captured() -> Artifact:
    """Four linear layers, as `wir capture` stores them."""
    model, args, kwargs = fault_models.mlp_cuda()
    made = inductor_frontend.capture(model, args, kwargs)
    noted = {"frontend": "inductor", "model": f"{fault_models.__name__}:mlp_cuda"}
    return replace(made, metadata={**made.metadata, "capture": json.dumps(noted)})


@pytest.fixture
def files(captured: Artifact, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with programs, which is the working directory."""
    for name, text in {"m.wir": PROGRAM, "steady.wir": STEADY}.items():
        save(bare_artifact(parse_program(text.replace("target cpu", "target cuda:0"))), tmp_path / name)
    save(captured, tmp_path / "model.wir")
    save(wrong_stride(captured), tmp_path / "bad.wir")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_step(files: Path) -> None:
    printed = wir("step", "m.wir", "--batch", "-c", "break aten::neg", "-c", "continue", "-c", "print %a")
    assert "f32[4, 2] strides [2, 1] on cuda:0" in printed
    commands = ("break @triton_*", "continue", "print", "next", "back", "set %buf1 = 1", "print mean(%buf1)")
    printed = wir("step", "model.wir", "--batch", *(x for command in commands for x in ("-c", command)))
    assert "breakpoint 1 (@triton_*)" in printed
    assert "launch @triton_" in printed
    assert "%buf1: f32[8, 64] mean " in printed
    assert printed.endswith("float 1\n")


def test_hunt(files: Path) -> None:
    printed = wir("hunt", "m.wir", status=1)
    assert "%l = call aten::log(%s)" in printed
    assert "%l: f32[4, 2]" in printed
    assert wir("hunt", "model.wir").startswith("nothing is bad")


@pytest.mark.parametrize("engine", ["python", "fx", "cpp"])
def test_compare_with_an_engine(engine: str, files: Path) -> None:
    assert wir("compare", "steady.wir", "--with", engine) == "no difference: 2 values agree\n"
    assert wir("compare", "model.wir", "--with", engine).startswith("no difference: ")


def test_compare_with_the_model(files: Path) -> None:
    assert wir("compare", "model.wir", "--with", "eager").startswith("no difference: ")
    assert "is the first that differs" in wir("compare", "bad.wir", "--with", "eager", status=1)


def test_minify(files: Path) -> None:
    wir("minify", "bad.wir", "--compare", "model.wir", "-o", "small.wir")
    assert "aten::mm" in wir("print", "small.wir", "--no-kernels")
    assert "is the first that differs" in wir("compare", "small.wir", "small.second.wir", status=1)
