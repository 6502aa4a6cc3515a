"""Short programs and their explanations."""

from __future__ import annotations

from wrapper_ir import parse_program
from wrapper_ir.artifact import Artifact, bare_artifact
from wrapper_ir_tools.explain import ExplainOptions, Explanation, explain_program

HEAD = """wir 0.5
target cpu

const %w : f32[8]
extern "aten::add.out(Tensor self, Tensor other, *, Scalar alpha=1, Tensor(a!) out) -> Tensor(a!)"
kernel cpp @relu entry "k" (read f32* src, write f32* dst) {{{
relu
}}}
kernel cpp @pair entry "k" (read f32* src, write f32* dst may_alias(src)) {{{
pair
}}}

"""
LAYER = """func @main(%x: f32[8], %saved: owned f32[8]) {
  assert_layout %x [8] [1] "input"
  %a = alloc f32[8]
  call aten::add.out(%x, %w, alpha=1, out=%a)  #1
  %b = alloc f32[8]
  launch @relu(%a, %b)  #2
  free %a.s
  free %saved
  return %b
}

provenance
  #1 nodes("add") ops("aten.add.Tensor") at("model.py:3") modules("first") frontend("buf0")
  #2 nodes("relu") ops("aten.relu.default") at("model.py:4", "model.py:5") frontend("k0")
"""


def artifact_of(body: str, head: str = HEAD) -> Artifact:
    return bare_artifact(parse_program(head + body))


def explained(body: str, **options: object) -> Explanation:
    return explain_program(artifact_of(body), ExplainOptions(**options))  # type: ignore[arg-type]  # by name
