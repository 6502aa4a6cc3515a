"""The commands on an artifact alone: nothing but the file is there."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from tests.debugger.command_case import PROGRAM, STEADY, wir
from wrapper_ir import load, parse_program, save
from wrapper_ir.artifact import bare_artifact
from wrapper_ir.plugins.registry import emitter

GPU = """wir 0.5
target cuda:0
func @main(%x: f32[2]) {
  return %x
}
"""


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with `m.wir`, which is the working directory."""
    save(bare_artifact(parse_program(PROGRAM)), tmp_path / "m.wir")
    save(bare_artifact(parse_program(STEADY)), tmp_path / "steady.wir")
    save(bare_artifact(parse_program(GPU)), tmp_path / "gpu.wir")
    save_file({"x": torch.full((3, 2), 0.25)}, str(tmp_path / "x.safetensors"))
    save_file({"y": torch.zeros(1)}, str(tmp_path / "y.safetensors"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_step(files: Path) -> None:
    (files / "script").write_text("break aten::neg\ncontinue\nprint %a\n")
    printed = wir("step", "m.wir", "-x", "script", "--batch", "--inputs", "x.safetensors")
    assert printed.endswith(
        "f32[3, 2] strides [2, 1] on cpu\n[[0.25, 0.25],\n [0.25, 0.25],\n [0.25, 0.25]]\n"
    )
    assert "(wir) print s0\nint 3\n" in wir("step", "m.wir", "--hint", "s0=3", stdin="next\nprint s0\nquit\n")
    wir("step", "m.wir", "--batch", "-c", "print %nothing", status=1)


def test_hunt(files: Path) -> None:
    printed = wir("hunt", "m.wir", status=1)
    assert "%l = call aten::log(%s)" in printed
    assert "%l: f32[4, 2]" in printed
    assert wir("hunt", "m.wir", "--ignore", "l").startswith("nothing is bad")


def test_compare(files: Path) -> None:
    assert wir("compare", "m.wir").startswith("no difference: ")
    printed = wir("compare", "m.wir", "--with", "python", status=1)
    assert "%r is of an operator that may draw random numbers" in printed
    assert "%r: 8 of 8 elements" in printed
    printed = wir("compare", "m.wir", "--other-seed", "1", status=1)
    assert "%a: 8 of 8 elements" in printed
    assert "%l: " in wir("compare", "m.wir", "--other-seed", "1", "--atol", "1e9", status=1)
    assert wir("compare", "m.wir", "--other-inputs", "x.safetensors", "--hint", "s0=3", status=1)
    assert wir("compare", "m.wir", "--streams", "late").startswith("no difference: ")


def test_compare_two_engines(files: Path) -> None:
    printed = wir("compare", "steady.wir", "--with", "fx", "--first-with", "python")
    assert printed == "no difference: 2 values agree\n"


def test_what_is_not_deterministic(files: Path) -> None:
    """An operator that draws random numbers without a declaration."""
    text = PROGRAM.replace(" tags(random)", "")
    save(bare_artifact(parse_program(text)), "unsteady.wir")
    printed = wir("compare", "unsteady.wir", status=1)
    assert printed.startswith(
        "%r is not deterministic: the first run gives other values when it is repeated\n"
    )


def test_replay(files: Path) -> None:
    assert wir("replay", "m.wir", "--ops", "1..2", "-o", "piece.wir").startswith("piece.wir: ")
    assert "result 1: tensor [4, 2]" in wir("run", "piece.wir")
    assert not load("piece.wir").program.main.params
    assert wir("compare", "piece.wir", "--with", "python").startswith("no difference: ")


def test_minify(files: Path) -> None:
    printed = wir("minify", "m.wir", "--nan", "-o", "test_small.py")
    assert "an op makes a NaN or an infinity" in printed
    text = (files / "test_small.py").read_text()
    assert "aten::log" in text
    assert "aten::abs" not in text
    module: dict[str, Any] = {}
    exec(text, module)  # written by the tool
    with pytest.raises(AssertionError):
        module["test_every_op_is_finite"]()
    wir("minify", "m.wir", "--nan", "-o", "small.wir")
    wir("hunt", "small.wir", status=1)
    wir("minify", "m.wir", status=2)


@pytest.mark.parametrize(
    ("args", "code"),
    [
        (("hunt", "m.wir", "--inputs", "y.safetensors"), "WIR950"),
        (("compare", "m.wir", "--with", "eager"), "WIR953"),
        (("minify", "m.wir", "--compare", "eager"), "WIR953"),
        (("minify", "m.wir", "--compare", "steady.wir"), "WIR963"),
        (("replay", "m.wir", "--ops", "99", "-o", "x.wir"), "WIR960"),
        (("minify", "m.wir", "--nan", "--inputs", "x.safetensors", "--hint", "s0=99"), "wir: "),
        (("compare", "m.wir", "--with", "nothing"), "WIR901"),
        (("step", "m.wir", "--machine", "nothing"), "WIR901"),
    ],
)
def test_what_is_lacking(files: Path, args: tuple[str, ...], code: str) -> None:
    assert code in wir(*args, status=2) or code == "wir: "


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
@pytest.mark.parametrize("command", ["step", "hunt", "compare"])
def test_a_device_that_is_not_here(files: Path, command: str) -> None:
    printed = wir(command, "gpu.wir", status=2)
    assert "[WIR952] machine 'torch' has no cuda:0, which the program uses" in printed
    assert "move-device" in printed


def test_pdb_on_an_emitted_folder(files: Path) -> None:
    """Breakpoints bind in emitted Python, and values print."""
    (main_file, *_) = emitter("python").write(load("m.wir"), files / "out")
    lines = main_file.read_text().splitlines()
    number = next(i for i, line in enumerate(lines, 1) if line.strip().startswith("n = neg("))
    commands = [
        f"break {main_file}:{number}",
        "continue",
        "p tuple(a.shape)",
        "p bool((a >= 0).all())",
        "next",
        "p n.dtype",
        "quit",
    ]
    done = subprocess.run(
        [sys.executable, "-m", "pdb", str(main_file)],
        input="\n".join([*commands, ""]), capture_output=True, text=True, check=False, cwd=files,
    )  # fmt: skip
    assert f"Breakpoint 1 at {main_file}:{number}" in done.stdout, done.stdout + done.stderr
    assert "(4, 2)" in done.stdout
    assert "True" in done.stdout
    assert "torch.float32" in done.stdout
