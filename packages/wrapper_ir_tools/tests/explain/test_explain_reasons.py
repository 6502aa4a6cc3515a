"""Explanations of decisions: result memory, choices, graph splits."""

from __future__ import annotations

import dataclasses

import pytest
from packages.wrapper_ir_tools.tests.explain.explained_programs import LAYER, artifact_of, explained

from wrapper_ir.artifact.choices import CHOICES, Candidate, Choice, choices_json
from wrapper_ir.artifact.sources import SOURCES
from wrapper_ir_tools.explain import explain_program, explanation_text


def test_why_a_result_has_memory_of_its_own() -> None:
    result = explained(
        """func @main(%x: f32[8], %y: f32[4]) {
  %a = alloc f32[8]
  launch @pair(%x, %a)
  %b = alloc f32[8]
  launch @relu(%a, %b)
  %c = alloc f32[8]
  launch @pair(%a, %c)
  %d = alloc f32[8]
  launch @pair(%w, %d)
  %e = alloc f32[8]
  launch @pair(%c, %e)
  %f = alloc f32[8]
  call aten::add.out(%e, %b, alpha=1, out=%f)
  %g = reuse %f : f32[8]
  launch @relu(%b, %g)
  return %g, %c, %d
}
"""
    )
    assert {(p.result, p.reused, *p.reasons) for p in result.in_place} == {
        ("a", "", "%x: it is the caller's"),
        ("b", "", "%a: the kernel reads src at other indices than it writes dst, or does not say"),
        (
            "c",
            "",
            "%a: nothing: `wir opt --pass reuse-in-place` writes it there, unless address or stream differ",
        ),
        ("d", "", "%w: it is a constant"),
        ("e", "", "%c: still used by op 20"),
        (
            "f",
            "",
            "%e: operator aten::add.out may read it after it has begun to write",
            "%b: operator aten::add.out may read it after it has begun to write",
        ),
        ("g", "f"),
    }


def test_why_no_argument_fits() -> None:
    result = explained(
        """func @main(%y: f32[4]) {
  %a = alloc f32[8]
  launch @pair(%y, %a) extents(16, 32)
  return %a
}
"""
    )
    assert [p.reasons for p in result.in_place] == [("no argument has as many bytes",)]


GPU = """wir 0.5
target cuda:0 arch "sm_90"

extern "aten::relu(Tensor self) -> Tensor"
kernel triton @k entry "k" (read f32* x, write f32* y, i32 n) order(x, y, n, XBLOCK) configs(
  {XBLOCK = 128} warps(4) stages(1),
  {XBLOCK = 256} warps(8) stages(1),
) grid(ceildiv(n, XBLOCK)) heuristic "pointwise" {{{
k
}}}
kernel operator @aten "aten::relu.out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)" (read f32* self, write f32* out)

"""


def test_choices_that_are_open_and_that_were_made() -> None:
    body = """func @main(%x: f32[8]) {
  %a = alloc f32[8]
  launch @k(%x, %a, 8)
  return %a
}
"""
    artifact = artifact_of(body, GPU.partition("kernel operator")[0])
    (choice,) = explain_program(artifact).choices
    assert choice == Choice(
        subject="@k",
        why="open: one of 2 configs of the heuristic pointwise is taken when it is tuned, else the first",
        ops=(2,),
        candidates=(
            Candidate(name="XBLOCK=128 warps=4 stages=1", chosen=True),
            Candidate(name="XBLOCK=256 warps=8 stages=1"),
        ),
    )
    candidate = Choice(
        subject="@multi",
        why="measured on a device",
        candidates=(
            Candidate(name="@k", microseconds=1.5, chosen=True),
            Candidate(name="@other", detail="failed"),
        ),
    )
    tuned = dataclasses.replace(artifact, extensions={CHOICES: choices_json([(candidate, ["k"])])})
    assert explain_program(tuned).choices == (dataclasses.replace(candidate, ops=(2,)),)
    assert "  * @k  1.5 us" in explanation_text(explain_program(tuned)).splitlines()


@pytest.mark.parametrize("text", ["{", "[1]", '[{"subject": 1}]', "{}", '[{"subject": "a", "kernels": 1}]'])
def test_a_damaged_extension_is_passed_over(text: str) -> None:
    artifact = dataclasses.replace(artifact_of(LAYER), extensions={CHOICES: text, SOURCES: text})
    result = explain_program(artifact)
    assert [c.subject for c in result.choices] == ["@relu", "@pair", "aten::add.out"]
    assert dict(result.source_texts) == {}


def test_why_a_graph_is_split() -> None:
    result = explain_program(
        artifact_of(
            """func @main(%x: f32[8], %h: f32[8] @cpu) {
  %a = alloc f32[8]
  launch @k(%x, %a, 8)
  %c = alloc f32[8] @cpu
  copy %c, %a  #1
  %b = alloc f32[8]
  launch @k(%a, %b, 8)
  return %b, %c
}

provenance
  #1 at("model.py:7")
""",
            GPU.partition("kernel operator")[0],
        )
    )
    assert ("cuda graph", "... is on cpu", ("model.py:7",)) in [
        (s.what, s.why, s.sources) for s in result.splits
    ]
