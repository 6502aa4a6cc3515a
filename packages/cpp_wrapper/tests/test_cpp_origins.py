"""Lines of `program.cpp` map to their ops; debuggers find them in the folder of a program."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
import torch

from cpp_wrapper.emitter import EMITTER
from cpp_wrapper.errors import CacheError
from wrapper_ir import ir, parse_program
from wrapper_ir.artifact import TensorData, bare_artifact
from wrapper_ir_tools.explain import ExplainOptions, explain_program

PROGRAM = """wir 0.5
target cpu

extern "aten::add.out(Tensor self, Tensor other, *, Scalar alpha=1, Tensor(a!) out) -> Tensor(a!)"

func @main(%x: f32[8]) {
  %a = alloc f32[8]
  call aten::add.out(%x, %x, alpha=1, out=%a)  #1
  %b = alloc f32[8]
  copy %b, %a  #2
  return %b
}

provenance
  #1 nodes("add") at("model.py:3")
  #2 nodes("clone") at("model.py:4")
"""


def test_lines_of_ops() -> None:
    artifact = bare_artifact(parse_program(PROGRAM))
    (text,) = EMITTER.emitted_texts(artifact)
    assert text.text == EMITTER.emit(artifact).files["program.cpp"]
    assert len(text.origins) == text.text.count("\n")
    (file,) = explain_program(artifact, ExplainOptions(texts={"cpp": [text]})).files
    found: dict[str, list[str]] = {}
    for line in file.lines:
        assert not line.is_code or line.sources or line.reason
        for source in line.sources:
            found.setdefault(source, []).append(line.text)
    assert any("aten::add.Tensor" in line for line in found["model.py:3"])
    assert any("out argument of aten::add.out" in line for line in found["model.py:3"])
    assert any("copy(t[b_1], t[a_1])" in line for line in found["model.py:4"])
    assert not any("t[b_1]" in line for line in found["model.py:3"])


def _compiled_lines(library: Path, source: Path) -> set[int]:
    """The lines of a source, by its path, that a library's debugging information leads to."""
    command = ["objdump", "--dwarf=decodedline", str(library)]
    found, lines = False, set()
    for line in subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines():
        if line.endswith((":", "[++]")) and "/" in line:  # the file that rows are of from here on
            found = line.split(":")[0] == str(source)
        row = re.match(rf"{source.name}\s+(\d+)\s+0x", line)
        if found and row is not None:
            lines.add(int(row[1]))
    return lines


def test_a_program_runs_from_a_folder_where_debuggers_find_its_lines(tmp_path: Path) -> None:
    artifact = bare_artifact(parse_program(PROGRAM))
    program = EMITTER.compile(artifact)
    before = program.path
    files = EMITTER.relocate(program, artifact, tmp_path / "code")
    assert files[0] == tmp_path / "code" / "program.cpp"
    assert program.path in files
    assert str(program.path) in Path("/proc/self/maps").read_text()
    texts = EMITTER.emitted_texts(artifact)
    assert files[0].read_text(encoding="utf-8") == texts[0].text
    of_ops = {
        n for n, origin in enumerate(texts[0].origins, 1) if origin is not None and origin.position in (1, 3)
    }
    assert of_ops & _compiled_lines(program.path, files[0])
    assert not _compiled_lines(before, files[0])
    (result,) = program.boxed([torch.ones(8)])
    assert result.tolist() == [2.0] * 8
    library = program.path
    assert EMITTER.relocate(program, artifact, tmp_path / "code") == files
    assert program.path == library


CONSTANT = """wir 0.5
target cpu

KINDconst %w : f32[2]

func @main(%x: f32[2]) {
  copy %x, %w
  return %x
}
"""


def test_the_file_has_the_constants_of_its_own_program(tmp_path: Path) -> None:
    found = []
    for number in (1.0, 2.0):
        data = {
            "w": TensorData(dtype=ir.DType.F32, buffer=memoryview(torch.full((2,), number).numpy().tobytes()))
        }
        artifact = bare_artifact(parse_program(CONSTANT.replace("KIND", "")), data)
        program = EMITTER.compile(artifact)
        EMITTER.relocate(program, artifact, tmp_path)
        (result,) = program.boxed([torch.zeros(2)])
        found.append((result.tolist(), program.path.name))
        assert [path.name for path in tmp_path.glob("*.so")] == [program.path.name]
    assert [values for values, _ in found] == [[1.0, 1.0], [2.0, 2.0]]
    assert found[0][1] != found[1][1]


def test_a_program_with_state_stays_where_it_is(tmp_path: Path) -> None:
    data = {"w": TensorData(dtype=ir.DType.F32, buffer=memoryview(bytes(8)))}
    artifact = bare_artifact(parse_program(CONSTANT.replace("KIND", "mutable ")), data)
    program = EMITTER.compile(artifact)
    before = program.path
    with pytest.raises(CacheError, match="CPP305"):
        EMITTER.relocate(program, artifact, tmp_path)
    assert program.path == before
