"""Refused files and programs add no Triton kernel to torch's tables."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

import fx_converter
import wrapper_ir
from fx_converter import FxOptions
from tests.fx.damage import no_output, other_main, rewritten, tables, text_of
from tests.fx.gpu_program import for_a_gpu
from tests.triton.triton_program import PROGRAM
from wrapper_ir.artifact import Artifact, bare_artifact
from wrapper_ir.errors import WirError
from wrapper_ir.json.kernel_hash import content_hash


def marked(mark: str) -> Artifact:
    """A program for a GPU that need not be there, whose kernels no other test has."""
    return for_a_gpu(PROGRAM.replace("import triton\n", f"import triton  # {mark}\n"))


def of_another(path: Path, mark: str) -> Path:
    """A graph of kernels that no process has entered anywhere: that of a program which differs in their texts
    only.
    """
    one, other = marked(f"{mark} one"), marked(f"{mark} other")
    fx_converter.save(fx_converter.convert(one, FxOptions(kernel_calls="hop")), path)
    text = text_of(path)
    for a, b in zip(one.program.kernels, other.program.kernels, strict=True):
        text = text.replace(content_hash(a), content_hash(b))
    wrapper_ir.save(dataclasses.replace(other, extensions={"fx_graph.json": text}), path)
    return path


def test_programs_that_end_badly_enter_no_triton_kernel() -> None:
    before, good = tables(), marked("badly")
    text = wrapper_ir.print_program(good.program).replace("return %out", "return %out, s0 > 3, s7", 1)
    bad = wrapper_ir.parse_program(text.replace("symbol s0", "symbol s7 : int backed [2, 9]\nsymbol s0", 1))
    with pytest.raises(WirError, match="FX101"):
        fx_converter.convert(bare_artifact(bad), FxOptions(kernel_calls="hop"))
    assert tables() == before
    fx_converter.convert(good, FxOptions(kernel_calls="hop"))
    assert len(tables()[1]) - len(before[1]) == 2


def test_damaged_files_enter_no_triton_kernel(tmp_path: Path) -> None:
    good, bad = of_another(tmp_path / "good.wir", "file"), tmp_path / "bad.wir"
    before = tables()
    for change in (_direct, other_main, no_output):
        said = json.loads(text_of(good))
        change(said)
        with pytest.raises(WirError, match="FX202"):
            fx_converter.load(rewritten(good, bad, json.dumps(said)))
        assert tables() == before
    fx_converter.load(good)
    assert len(tables()[1]) - len(before[1]) == 2


def _direct(said: Any) -> None:
    """The last kernel, as if it were called directly."""
    [*_, last] = [
        n for n in said["graphs"][-1]["nodes"] if n["op"] == "call_function" and "kernel" in n["target"]
    ]
    last["target"]["form"] = "direct"
