"""Streams that use parts of one storage, and the lifetime of memory that several streams use."""

from __future__ import annotations

import pytest

from wrapper_ir import parse_program, print_program
from wrapper_ir.verifier import check
from wrapper_ir_passes.cleanup.derive_frees import DeriveFrees

PARTS = """wir 0.5
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
    columns = rows.replace("f32[s0, 8]{16, 1}", "f32[4, s0]{16, 1}")  # known only at run time
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
    """`%x` and `%s` may not be freed after their last use, because another stream may still use them."""
    derived = print_program(DeriveFrees().run(parse_program(PARTS)))
    lines = [line.strip() for line in derived.splitlines()]
    end = lines.index("return %c")
    assert lines[end - 3 : end] == ["drop %x", "drop %two", "free %s"]
    one_stream = derived.replace(" stream(1)", "").replace(" stream(2)", "").replace("  free %s\n", "")
    derived = print_program(DeriveFrees().run(parse_program(one_stream)))
    lines = [line.strip() for line in derived.splitlines()]
    assert lines[lines.index("launch @f(%a, %c)") + 1] == "free %s"


CALL = """wir 0.5
target cuda:0 arch "sm_90"
kernel foreign @f runtime "r" (read f32* src, write f32* dst) {{{
}}}
func @main(%x: f32[8], %y: f32[8]) {
  %a = alloc f32[8]
  launch @f(%x, %a)
  BEFORE
  call_subgraph @inner(%a, %y)
  AFTER
  launch @f(%x, %a)
  free %a.s
  drop %x
  drop %y
  return
}
func @inner(%a: f32[8], %y: f32[8]) {
  FORK
  launch @f(%a, %y) stream(1)
  JOIN
  drop %a
  drop %y
  return
}
"""
FORK = "%e = record_event @cuda:0\n  wait_event %e @cuda:0 stream(1)\n  drop %e"
JOIN = "%g = record_event @cuda:0 stream(1)\n  wait_event %g @cuda:0\n  drop %g"


def _call(**parts: str) -> str:
    text = CALL
    for name in ("BEFORE", "AFTER", "FORK", "JOIN"):
        text = text.replace(f"  {name}\n", f"  {parts[name]}\n" if name in parts else "")
    return text


@pytest.mark.parametrize(
    "parts",
    [
        {"FORK": FORK, "JOIN": JOIN},
        {"BEFORE": FORK, "JOIN": JOIN},
        {"FORK": FORK, "AFTER": JOIN},
        {"BEFORE": FORK, "AFTER": JOIN},
    ],
    ids=["inside", "before", "after", "outside"],
)
def test_streams_of_a_callee_that_meet(parts: dict[str, str]) -> None:
    """The result is the same if the callee or its caller allocates the memory."""
    assert found(_call(**parts)) == []


@pytest.mark.parametrize(
    ("parts", "what"),
    [
        ({"JOIN": JOIN}, "%a is still used on stream 0 of cuda:0"),
        ({"FORK": FORK}, "%a is still used on stream 1 of cuda:0"),
        (
            {"FORK": JOIN.replace("%g", "%k"), "JOIN": JOIN},
            "%a is still used on stream 0",
        ),  # the wrong one waits
        ({"FORK": FORK, "AFTER": FORK}, "%a is still used on stream 1"),
    ],
    ids=["no fork", "no join", "fork the wrong way", "join the wrong way"],
)
def test_streams_of_a_callee_that_do_not(parts: dict[str, str], what: str) -> None:
    reports = found(_call(**parts))
    assert reports
    assert all("WIR045" in report for report in reports)
    assert what in reports[0]


def test_streams_of_a_callee_of_a_callee() -> None:
    outer = """func @outer(%a: f32[8], %y: f32[8]) {
  call_subgraph @inner(%a, %y)
  drop %a
  drop %y
  return
}
"""
    for parts, refused in (({"FORK": FORK, "JOIN": JOIN}, False), ({"FORK": FORK}, True)):
        text = _call(**parts).replace("call_subgraph @inner", "call_subgraph @outer") + outer
        assert bool(found(text)) is refused


def test_an_event_that_a_callee_returns() -> None:
    event = "%g = record_event @cuda:0 stream(1)"
    text = _call(FORK=FORK, JOIN=event, AFTER="wait_event %h @cuda:0\n  drop %h")
    text = text.replace("  call_subgraph @inner(%a, %y)", "  %h = call_subgraph @inner(%a, %y) : event")
    text = text.replace("  drop %y\n  return\n}\n", "  drop %y\n  return %g\n}\n").replace(
        "  return %g", "  return", 1
    )
    assert found(text) == []
    assert found(text.replace("  wait_event %h @cuda:0\n", ""))


def test_a_trip_of_a_loop_leaves_no_stream_behind() -> None:
    text = """wir 0.5
target cuda:0 arch "sm_90"
kernel foreign @f runtime "r" (read f32* src, write f32* dst) {{{
}}}
func @main(%go: bool[], %x: f32[8]) {
  %r = while @test do @body carried(%x) captured(%go) : f32[8]
  drop %go
  drop %x
  return %r
}
func @test(%x: f32[8], %go: bool[]) {
  drop %x
  return %go
}
func @body(%x: f32[8], %go: bool[]) {
  drop %go
  %r = alloc f32[8]
  FORK
  launch @f(%x, %r) stream(1)
  JOIN
  drop %x
  return %r
}
""".replace("FORK", FORK)
    assert found(text.replace("JOIN", JOIN)) == []
    assert any("a trip leaves work" in report for report in found(text.replace("  JOIN\n", "")))


def test_frees_wait_for_what_a_callee_leaves() -> None:
    """Memory that a callee uses on another stream lives until its caller has joined the stream."""
    text = _call(FORK=FORK, AFTER=JOIN).replace("  launch @f(%x, %a)\n  free %a.s\n", "")
    derived = DeriveFrees().run(parse_program(text))
    assert check(derived) == ()
    lines = [line.strip() for line in print_program(derived).splitlines()]
    assert lines.index("free %a.s") > lines.index("wait_event %g")
