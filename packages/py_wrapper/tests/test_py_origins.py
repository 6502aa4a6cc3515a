"""Lines of emitted modules map to their ops; compiled modules run from another folder."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from py_wrapper.emitter import EMITTER, compile
from py_wrapper.errors import CacheError
from py_wrapper.options import PyOptions
from py_wrapper.relocate import relocate
from wrapper_ir import parse_program
from wrapper_ir.artifact import bare_artifact
from wrapper_ir_tools.explain import ExplainOptions, explain_program

PROGRAM = """wir 0.5
target cpu

symbol s0 : int backed [0, 64] hint 8
symbol u0 : int unbacked [0, 64]
extern "aten::add.out(Tensor self, Tensor other, *, Scalar alpha=1, Tensor(a!) out) -> Tensor(a!)"

func @main(%x: f32[s0], %n: int) {
  define s0 = size(%x, 0)
  define u0 = item(%n)
  %v = view %x : f32[u0]  #2
  %a = alloc f32[u0]
  call aten::add.out(%v, %v, alpha=1, out=%a)  #1
  return %a
}

provenance
  #1 nodes("add") at("model.py:3")
  #2 nodes("narrow") at("model.py:2")
"""


def test_lines_of_ops_and_of_checks_that_lowering_adds() -> None:
    artifact = bare_artifact(parse_program(PROGRAM))
    (text,) = EMITTER.emitted_texts(artifact)
    emitted = EMITTER.emit(artifact)
    assert (text.name, text.text) == ("program.py", emitted.source)
    assert len(text.origins) == text.text.count("\n")
    (file,) = explain_program(artifact, ExplainOptions(texts={"python": [text]})).files
    assert all(not line.is_code or line.sources or line.reason for line in file.lines)
    (call,) = [line for line in file.lines if "out=a" in line.text]
    assert call.sources == ("model.py:3",)
    checks = [line for line in file.lines if "fail_assertion(" in line.text and line.op is not None]
    assert checks
    assert all(line.reason.startswith("added by lowering, before this op") for line in checks)


def test_a_module_runs_from_another_folder(tmp_path: Path) -> None:
    artifact = bare_artifact(parse_program(PROGRAM))
    program = compile(artifact, PyOptions(cache_folder=tmp_path / "cache"))
    (module,) = [p for p in relocate(program, tmp_path / "here") if p.name == "program.py"]
    assert module == tmp_path / "here" / "program.py"
    assert program.boxed.__code__.co_filename == str(module)
    (result,) = program.boxed([torch.ones(4), 3])
    assert result.tolist() == [2.0, 2.0, 2.0]
    assert relocate(program, tmp_path / "here") == (module,)


def test_a_module_without_its_file_stays(tmp_path: Path) -> None:
    program = compile(bare_artifact(parse_program(PROGRAM)), PyOptions(cache_folder=tmp_path / "cache"))
    (file,) = (tmp_path / "cache").rglob("program.py")
    file.unlink()
    with pytest.raises(CacheError, match="PY203"):
        relocate(program, tmp_path / "here")
    (result,) = program.boxed([torch.ones(4), 1])
    assert result.tolist() == [2.0]
