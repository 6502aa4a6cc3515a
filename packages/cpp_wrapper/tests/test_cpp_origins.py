"""Lines of `program.cpp` know the op that they are written for."""

from __future__ import annotations

from cpp_wrapper.emitter import EMITTER
from wrapper_ir import parse_program
from wrapper_ir.artifact import bare_artifact
from wrapper_ir.explain import ExplainOptions, explain_program

PROGRAM = """wir 0.3
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
