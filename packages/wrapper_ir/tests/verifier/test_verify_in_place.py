"""Arguments of a launch that may share bytes: in-place pairs with one first byte, and overlaps in any position."""

from __future__ import annotations

import pytest

from wrapper_ir import check, parse_program, print_program
from wrapper_ir.json import from_json, to_json

_TEXT = """wir 0.5
target cpu

symbol s0 : int backed [1, *]
kernel cpp @k entry "k" (read f32* src SRC, write f32* dst DST) {{{
}}}

func @main(%x: f32[16], %y: f32[s0]) {
  define s0 = size(%y, 0)
LINES
  drop %x
  drop %y
  return
}
"""

SAME = "  launch @k(%x, %x)"
TYPES = "  %a = view %x : f32[4, 4]\n  %b = view %x : f32[4, 4]{1, 4}\n  launch @k(%a, %b)"
PARTS = "  %a = view %x : f32[8]\n  %b = view %x : f32[16]\n  launch @k(%a, %b)"
APART = "  %a = view %x : f32[8]\n  %b = view %x + 32 : f32[8]\n  launch @k(%a, %b)"
SHIFTED = "  %a = view %x : f32[8]\n  %b = view %x + 4 : f32[8]\n  launch @k(%a, %b)"
DYNAMIC = "  %a = view %y : f32[s0]\n  launch @k(%a, %y)"
EITHER = "  %a = ensure_aligned %x, 16\n  launch @k(%a, %x)\n  drop %a"

NONE, ALIAS, ALIASED, OVERLAP = (
    ("", ""),
    ("may_alias(dst)", ""),
    ("", "may_alias(src)"),
    ("may_overlap(dst)", ""),
)

CASES = {
    "same": (SAME, {NONE: "WIR087", ALIAS: "", ALIASED: "", OVERLAP: ""}),
    "other types": (TYPES, {NONE: "WIR087", ALIAS: "", ALIASED: "", OVERLAP: ""}),
    "parts": (PARTS, {NONE: "WIR087", ALIAS: "", ALIASED: "", OVERLAP: ""}),
    "apart": (APART, {NONE: "", ALIAS: "", ALIASED: "", OVERLAP: ""}),
    "shifted": (SHIFTED, {NONE: "WIR087", ALIAS: "WIR210", ALIASED: "WIR210", OVERLAP: ""}),
    "dynamic": (DYNAMIC, {NONE: "WIR087", ALIAS: "", ALIASED: "", OVERLAP: ""}),
    "either": (EITHER, {NONE: "WIR087", ALIAS: "WIR210", ALIASED: "WIR210", OVERLAP: ""}),
}
EVERY = [(name, given) for name, (_, codes) in CASES.items() for given in codes]


@pytest.mark.parametrize(("name", "given"), EVERY)
def test_what_a_launch_may_share(name: str, given: tuple[str, str]) -> None:
    lines, codes = CASES[name]
    text = _TEXT.replace("SRC", given[0]).replace("DST", given[1]).replace("LINES", lines)
    program = parse_program(text)
    assert [d.code for d in check(program)] == ([codes[given]] if codes[given] else [])
    assert parse_program(print_program(program)) == program
    assert from_json(to_json(program)) == program


def test_two_outputs_in_one_place_of_an_input() -> None:
    """Each pair is valid alone, but not both: the second output is not a pair of the first."""
    text = """wir 0.5
target cpu

kernel cpp @k entry "k" (read f32* src may_alias(a, b), write f32* a, write f32* b) {{{
}}}
func @main(%x: f32[16], %y: f32[16]) {
  launch @k(%x, ARGS)
  return
}
"""
    for args, codes in (("%x, %y", []), ("%y, %x", []), ("%x, %x", ["WIR087"])):
        assert [d.code for d in check(parse_program(text.replace("ARGS", args)))] == codes


def test_what_may_overlap_may_be_read_after_the_kernel_wrote_it() -> None:
    text = """wir 0.5
target cpu

kernel cpp @k entry "k" (write f32* a, write f32* b, read f32* whole may_overlap(a, b)) {{{
}}}
func @main() {
  %whole.s = alloc_storage 32
  %whole = view %whole.s : f32[8]
  %a = view %whole.s : f32[4]
  %b = view %whole.s + 16 : f32[4]
  launch @k(%a, %b, %whole)
  return %whole
}
"""
    assert check(parse_program(text)) == ()
    assert [d.code for d in check(parse_program(text.replace("may_overlap", "may_alias")))] == [
        "WIR080",
        "WIR210",
    ]
