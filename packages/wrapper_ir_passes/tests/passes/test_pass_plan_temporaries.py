"""Bytes that operators allocate and release inside: reports show them, and plans need less during such
operators.
"""

from __future__ import annotations

import json

import pytest

from wrapper_ir import ir, parse_program
from wrapper_ir_passes import run_pipeline
from wrapper_ir_passes.analysis.stats import program_stats
from wrapper_ir_passes.cleanup.derive_frees import derive_frees
from wrapper_ir_tools.report import memory_report, report_json, report_text

PROGRAM = """wir 0.5
target cpu

symbol s0 : int backed [1, 64] hint 2
extern "aten::relu(Tensor self) -> Tensor"
extern "aten::convolution(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, SymInt[] padding, SymInt[] dilation, bool transposed, SymInt[] output_padding, SymInt groups) -> Tensor"
kernel cpp @k entry "k" (read f32* src, write f32* dst) {{{
}}}
kernel cpp @l entry "k" (read f32* src, read f32* other, write f32* dst) {{{
}}}
kernel cpp @m entry "k" (read f32* src, write f32* dst) {{{
}}}

func @main(%x: f32[32768], %s: f32[4096]) {
  %r = call aten::relu(%s) : f32[4096]
  %big = alloc f32[32768]
  launch @k(%x, %big) extents(32768, 32768)
  %i = alloc f32[2, 32, 8, 8]{2048, 1, 256, 32}
  launch @l(%big, %r, %i) extents(32768, 4096, 4096)
  %w = alloc f32[64, 32, 2, 2]{128, 1, 64, 32}
  launch @m(%i, %w) extents(4096, 8192)
  %y = call aten::convolution(%i, %w, none, stride=[2, 2], padding=[0, 0], dilation=[1, 1], transposed=false, output_padding=[0, 0], groups=1) : f32[2, 64, 4, 4]{1024, 1, 256, 64}
  return %y
}
"""
OPERANDS, MADE, INSIDE = 16_384 + 32_768, 8_192, 32_768 + 8_216
"""Bytes of the convolution: its weights in another layout, and scratch."""


def _program(text: str) -> ir.Program:
    return derive_frees(parse_program(text))


def _allocations(program: ir.Program) -> int:
    return sum(isinstance(op, ir.AllocStorage) for op in program.ops)


def test_a_pool_ends_before_an_operator_with_temporaries() -> None:
    program = _program(PROGRAM)
    planned = run_pipeline(program, "plan-memory")
    use = program_stats(planned).memory
    assert (use.peak, use.live, use.bound) == (131_072 + 16_384 + 16_384,) * 3
    unknown = _program(PROGRAM.replace("aten::convolution(", "test::other("))
    assert _allocations(run_pipeline(unknown, "plan-memory")) < _allocations(planned)


def test_reports_name_operators_whose_temporaries_are_not_known() -> None:
    known = memory_report(_program(PROGRAM))
    assert known.unknown_temporaries == {}
    assert "temporaries not known" not in report_text(known)
    other = memory_report(_program(PROGRAM.replace("aten::convolution(", "test::other(")))
    assert other.unknown_temporaries == {"test::other": 1}
    assert "temporaries not known         test::other (counted as 0)" in report_text(other)
    assert json.loads(report_json(other))["unknown_temporaries"] == {"test::other": 1}


def test_reports_show_them() -> None:
    report = memory_report(_program(PROGRAM))
    (main,) = report.functions
    (inside,) = [s for s in main.storages if s.kind == "temporary"]
    assert (inside.bytes, main.held[inside.begin]) == (INSIDE, OPERANDS + MADE + INSIDE)
    small = memory_report(_program(PROGRAM.replace("32768", "4096")))
    assert small.held_peak == small.live == small.bound == OPERANDS + MADE + INSIDE
    assert "temporary" in report_text(small)
    kinds = [s["kind"] for f in json.loads(report_json(small))["functions"] for s in f["storages"]]
    assert kinds.count("temporary") == 1


@pytest.mark.parametrize(
    ("old", "new", "inside"),
    [
        ("transposed=false", "transposed=true", 0),
        ("f32[2, 64, 4, 4]{1024, 1, 256, 64}", "f32[2, 64, 4, 4]", 16_384 + 32_768),
        ("2, 32, 8, 8]{2048, 1, 256, 32}", "s0, 32, 8, 8]{2048, 1, 256, 32}", INSIDE),
        ("aten::convolution(", "test::other(", 0),
    ],
)
def test_what_follows_from_types(old: str, new: str, inside: int) -> None:
    report = memory_report(_program(PROGRAM.replace(old, new)))
    sizes = [s.bytes for s in report.functions[0].storages if s.kind == "temporary"]
    assert sizes == ([inside] if inside else [])
