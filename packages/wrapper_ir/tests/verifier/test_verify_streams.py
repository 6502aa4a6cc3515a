"""Streams that use parts of one storage, and whose memory lasts until they have met."""

from __future__ import annotations

import pytest

from wrapper_ir import parse_program, print_program
from wrapper_ir.passes import DeriveFrees
from wrapper_ir.verifier import check

PARTS = """wir 0.3
target cuda:0 arch "sm_90"
kernel foreign @f runtime "r" (read f32* src, write f32* dst) {{{
}}}
func @main(%x: f32[4, 8]) {
  %s = alloc_storage 256
  %a = view %s : f32[4, 8]{16, 1}
  %b = view %s + 32 : f32[4, 8]{16, 1}
  %begun = record_event @cuda:0
  wait_event %begun @cuda:0 stream(1)
  wait_event %begun @cuda:0 stream(2)
  drop %begun
  launch @f(%x, %a) stream(1)
  launch @f(%x, %b) stream(2)
  %one = record_event @cuda:0 stream(1)
  wait_event %one @cuda:0
  drop %one
  %c = alloc f32[4, 8]
  launch @f(%a, %c)
  %two = record_event @cuda:0 stream(2)
  wait_event %two @cuda:0
  drop %two
  free %s
  return %c
}
"""


def found(text: str) -> list[str]:
    program = parse_program(text)
    return [str(d) for d in check(program)]


def test_parts_that_do_not_overlap() -> None:
    assert found(PARTS) == []


def test_parts_of_any_length() -> None:
    rows = PARTS.replace("f32[4, 8]", "f32[s0, 8]").replace("alloc_storage 256", "alloc_storage 64*s0")
    rows = rows.replace("func", "symbol s0 : int backed [2, 1024]\nfunc")
    rows = rows.replace("  %s =", "  define s0 = size(%x, 0)\n  %s =")
    assert found(rows) == []
    columns = rows.replace("f32[s0, 8]{16, 1}", "f32[4, s0]{16, 1}")  # how long, only run time will tell
    assert any("WIR045" in report for report in found(columns))


@pytest.mark.parametrize(
    "change",
    [
        ("+ 32 : f32[4, 8]{16, 1}", "+ 28 : f32[4, 8]{16, 1}"),  # one element of each row
        ("launch @f(%a, %c)", "launch @f(%b, %c)"),  # only the other one is waited for
        ("wait_event %begun @cuda:0 stream(2)\n", ""),  # the memory's own stream
    ],
    ids=["overlapping", "unordered", "memory"],
)
def test_parts_that_do(change: tuple[str, str]) -> None:
    assert change[0] in PARTS
    reports = found(PARTS.replace(*change))
    assert reports
    assert all("WIR045" in report for report in reports)


def test_what_several_streams_use_lasts_until_the_end() -> None:
    """`%x` and `%s`: nothing says that they may be given back where they are used last."""
    derived = print_program(DeriveFrees().run(parse_program(PARTS)))
    lines = [line.strip() for line in derived.splitlines()]
    end = lines.index("return %c")
    assert lines[end - 3 : end] == ["drop %x", "drop %two", "free %s"]
    one_stream = derived.replace(" stream(1)", "").replace(" stream(2)", "").replace("  free %s\n", "")
    derived = print_program(DeriveFrees().run(parse_program(one_stream)))
    lines = [line.strip() for line in derived.splitlines()]
    assert lines[lines.index("launch @f(%a, %c)") + 1] == "free %s"
