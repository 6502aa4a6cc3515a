"""Captured models shrink against the model itself, and against another program."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.debugger.command_case import wir
from tests.debugger.faults import wrong_stride
from wrapper_ir import ir, load, save
from wrapper_ir.artifact import Artifact
from wrapper_ir.text import print_function


@pytest.fixture
def files(good: Callable[[str], Artifact], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with `good.wir` and `bad.wir`, which is the working directory."""
    save(good("mlp"), tmp_path / "good.wir")
    save(wrong_stride(good("mlp")), tmp_path / "bad.wir")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def calls(path: str) -> list[str]:
    return [op.target for op in load(path).program.ops if isinstance(op, ir.CallExtern)]


def test_against_the_model(files: Path) -> None:
    printed = wir("minify", "bad.wir", "--compare", "eager", "-o", "small.wir")
    assert re.search(r"the value %buf\d+ differs from the model", printed)
    assert "sizes and contents stay" in printed
    assert calls("small.wir") == ["aten::addmm.out"]
    assert not load("small.wir").program.main.params
    printed = wir("compare", "small.wir", "--with", "eager", status=1)
    assert re.search(r"%buf\d+: 512 of 512 elements", printed)
    assert "nodes addmm_1" in printed
    wir("minify", "bad.wir", "--compare", "eager", "-o", "small.py")
    module: dict[str, object] = {}
    exec((files / "small.py").read_text(), module)  # written by the tool
    with pytest.raises(AssertionError):
        module["test_the_value_is_the_models"]()  # type: ignore[operator]  # the function in the module
    assert "[WIR962]" in wir("minify", "good.wir", "--compare", "eager", status=2)


def test_against_another_program(files: Path) -> None:
    """Both programs shrink, including their sizes: no remaining kernel has them in its source."""
    wir("minify", "bad.wir", "--compare", "good.wir", "-o", "small.wir")
    assert calls("small.wir") == calls("small.second.wir") == ["aten::addmm.out"]
    texts = [
        print_function(program.main, program)
        for program in (load("small.wir").program, load("small.second.wir").program)
    ]
    assert "%2.weight.v = view %2.weight : f32[2, 2]\n" in texts[0]
    assert "%2.weight.v = view %2.weight : f32[2, 2]{1, 2}\n" in texts[1]
    assert "is the first that differs" in wir("compare", "small.wir", "small.second.wir", status=1)
    assert "[WIR962]" in wir("minify", "good.wir", "--compare", "good.wir", status=2)
