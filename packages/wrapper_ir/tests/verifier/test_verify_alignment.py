"""Alignment of tensors: facts that are proved, programs that are refused, and checks at run time."""

from __future__ import annotations

import pytest

from wrapper_ir import check, ir, parse_program, print_program
from wrapper_ir.analysis.alignment import Congruence, analyse_alignment
from wrapper_ir.analysis.memo import Analyses
from wrapper_ir.json import from_json, to_json
from wrapper_ir.verifier.insert_checks import insert_checks, missing_checks
from wrapper_ir_passes.devices.move_device import MoveDevice

HEAD = """wir 0.5
target cpu

symbol s0 : int backed [0, 64]
symbol u0 : int unbacked [0, 64]
const %w : f32[4]
const %half : f32[4] storage("all", 8)
extern "aten::relu(Tensor self) -> Tensor"
extern "aten::nonzero(Tensor self) -> Tensor"
kernel cpp @k entry "k" (readwrite f32* x divisible(16)) {{{
}}}
kernel cpp @w entry "w" (write f32* x divisible(16)) {{{
}}}
kernel cpp @r entry "r" (read f32* x divisible(16)) {{{
}}}
kernel cpp @r64 entry "r64" (read f32* x divisible(64)) {{{
}}}
kernel cpp @n entry "n" (read f32* x, i64 n divisible(16)) {{{
}}}

"""
CALLEE = """
func @f(%a: f32[4]) {
  launch @r(%a)
  drop %a
  return
}
"""
SPLIT = """
func @at_8(%s: storage(64)) {
  %v = view %s + 8 : f32[4]
  launch @w(%v)
  return
}
"""


def program(body: str, more: str = "") -> ir.Program:
    """`main` with an input and a storage that it allocates."""
    lines = "\n  ".join(body.split("; "))
    text = f"""func @main(%x: f32[s0, 4]) {{
  define s0 = size(%x, 0)
  %s = alloc_storage s0*16 + 512 zero(call)
  {lines}
  free %s
  drop %x
  return
}}
"""
    made = parse_program(HEAD + text + more)
    assert parse_program(print_program(made)) == made
    assert from_json(to_json(made)) == made
    return made


def checks(valid: ir.Program) -> list[str]:
    """The run-time checks of a valid program, which is valid with them and then needs no others."""
    assert not check(valid)
    remaining = [
        f"%{c.tensors[0].name} {c.alignment}" if isinstance(c, ir.AssertLayout) else str(c.condition)
        for c in missing_checks(valid)
        if isinstance(c, ir.AssertLayout) or "WIR20" in c.message
    ]
    checked = insert_checks(valid)
    assert not check(checked)
    assert insert_checks(checked) is checked
    assert parse_program(print_program(checked)) == checked
    return remaining


@pytest.mark.parametrize(
    "body",
    [
        "%v = view %s : f32[4]; launch @k(%v)",
        "%v = view %s + 48 : f32[4]; launch @k(%v)",
        "%v = view %s + s0*16 : f32[4]; launch @k(%v)",
        "%v = view %s + s0*4 : f32[4]; %t = view %v + 64 - s0*4 : f32[4]; launch @k(%t)",
        "assert s0 % 4 == 0; %v = view %s + s0*4 : f32[4]; launch @k(%v)",
        "%v = view %s + 8 : f32[0]; launch @k(%v)",
        "%y = ensure_aligned %x, 16; launch @r(%y); drop %y",
        "%y = ensure_aligned %x, 64; %v = view %y + 16 : f32[0]; launch @r(%v); drop %y",
        "%y = call aten::relu(%x) : f32[s0, 4]; assert_layout %y [s0, 4] [4, 1] align(16); launch @k(%y); free %y",
        "%v = view %x : f32[0]; assert_layout %x align(16); launch @k(%x)",
        "launch @r(%w)",
        "%v = view %half + 8 : f32[0]; launch @r(%v)",
        "launch @n(%x, s0*16)",
        "launch @n(%x, 32)",
        "%p = alloc_storage 256 pool zero(call); %a = slot %p + 48 : 16; free %a; free %p",
        "%p = alloc_storage 256 align(16) pool; %a = slot %p + 32 : 16 align(8); free %a; free %p",
        "call_subgraph @f(%w)",
        "%v = view %s + 16 : f32[4]; call_subgraph @f(%v)",
    ],
)
def test_proved(body: str) -> None:
    assert not checks(program(body, CALLEE if "@f" in body else ""))


@pytest.mark.parametrize(
    ("body", "left"),
    [
        ("%v = view %s + s0*4 : f32[4]; launch @k(%v)", ["4*s0 % 16 == 0"]),
        ("%v = view %s + s0*4 : f32[s0]; launch @k(%v)", ["s0 == 0 or 4*s0 % 16 == 0"]),
        ("%v = view %s + 8 : f32[s0]; launch @k(%v)", ["s0 == 0"]),
        ("launch @n(%x, s0); launch @n(%x, s0)", ["s0 % 16 == 0"]),
        ("launch @k(%x)", ["%x 16"]),
        ("launch @r(%x); launch @r64(%x); %v = view %x + 64 : f32[4]; launch @r(%v)", ["%x 64"]),
        ("%v = view %x + 8 : f32[4]; launch @k(%v)", ["%v 16"]),
        ("%v = view %x + 16 : f32[s0]; launch @k(%v)", ["%v 16"]),
        ("%y = call aten::relu(%x) : f32[s0, 4]; launch @k(%y); free %y", ["%y 16"]),
        ("%y = ensure_aligned %x, 16; launch @r64(%y); drop %y", ["%y 64"]),
        ("%i = call aten::relu(%x) : f32[u0]; define u0 = size(%i, 0); launch @k(%i); free %i", ["%i 16"]),
        ("resize_storage %x, s0*32; launch @k(%x)", ["%x 16"]),
        ("assert_layout %x align(16); resize_storage %x, s0*32; launch @k(%x)", ["%x 16"]),
        ("%v = view %s + 8 : f32[4]; call_subgraph @f(%v); call_subgraph @f(%w)", ["%a 16"]),
        ("%v = view %x : f32[4]; call_subgraph @f(%v)", ["%a 16"]),
        ("%p = alloc_storage 512 pool; %a = slot %p + s0 : 16 align(16); free %a; free %p", ["s0 % 16 == 0"]),
    ],
)
def test_left_for_a_run(body: str, left: list[str]) -> None:
    assert checks(program(body, CALLEE if "@f" in body else "")) == left


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ("%v = view %s + 8 : f32[4]; launch @k(%v)", "WIR202"),
        ("%v = view %s + s0*16 + 4 : f32[4]; launch @k(%v)", "WIR202"),
        ("%v = view %s + 8 : f32[4]; %t = view %v + 4 : f32[2]; launch @k(%t)", "WIR202"),
        ("%y = ensure_aligned %x, 16; %v = view %y + 8 : f32[4]; launch @r(%v); drop %y", "WIR202"),
        ("assert_layout %x align(16); %v = view %x + 8 : f32[4]; launch @r64(%v)", "WIR202"),
        ("launch @r(%half)", "WIR202"),
        ("call_subgraph @f(%half)", "WIR202"),
        ("launch @n(%x, s0*16 + 8)", "WIR202"),
        ("%q = alloc_storage 64; call_subgraph @at_8(%q); free %q", "WIR202"),
        ("%q = alloc_storage 64 align(128); free %q", "WIR200"),
    ],
)
def test_refused(body: str, code: str) -> None:
    more = CALLEE if "@f" in body else SPLIT if "@at_8" in body else ""
    assert [diagnostic.code for diagnostic in check(program(body, more))] == [code]


LOOP = """
func @main(%x: f32[4]) {
  %r = while @more do @body carried(%x) : f32[4]
  launch @r(%r)
  free %r
  drop %x
  return
}

func @more(%a: f32[4]) {
  drop %a
  return true
}

func @body(%a: f32[4]) {
  launch @r(%a)
  drop %a
  %b = alloc f32[4]
  launch @w(%b)
  return %b
}
"""


def test_loops_carry_what_they_were_given_and_what_they_make() -> None:
    names = {
        c.tensors[0].name
        for c in missing_checks(parse_program(HEAD + LOOP))
        if isinstance(c, ir.AssertLayout)
    }
    assert names == {"a", "r"}
    aligned = LOOP.replace("carried(%x)", "carried(%w)")
    assert not [c for c in missing_checks(parse_program(HEAD + aligned)) if isinstance(c, ir.AssertLayout)]


def test_a_parameter_takes_any_storage_unless_it_says_more() -> None:
    callee = SPLIT.replace("+ 8 ", "")
    even = "%q = alloc_storage 64; call_subgraph @at_8(%q); free %q"
    assert not checks(program(even, callee))
    odd = "%p = alloc_storage 128 pool; %q = slot %p + 8 : 64; call_subgraph @at_8(%q); free %q; free %p"
    assert [diagnostic.code for diagnostic in check(program(odd, callee))] == ["WIR202"]
    assert not check(program(odd, SPLIT))
    stated = callee.replace("storage(64)", "storage(64 align(16))")
    assert not checks(program(even, stated))
    assert [diagnostic.code for diagnostic in check(program(odd, stated))] == ["WIR093", "WIR202"]


def test_a_slot_says_its_alignment_where_it_does_not_follow() -> None:
    parsed = program(
        "%p = alloc_storage 512 align(32) pool; %a = slot %p + 48 : 16; %b = slot %p + s0*8 : 8; "
        "%c = slot %p + 96 : 8 align(4); free %a; free %b; free %c; free %p"
    )
    slots = [v.type for op in parsed.main.body if isinstance(op, ir.Slot) for v in ir.results(op)]
    assert [t.alignment for t in slots if isinstance(t, ir.StorageType)] == [16, 8, 4]
    assert print_program(parsed).count("align(") == 2


def test_nothing_is_analysed_where_no_kernel_relies_on_addresses() -> None:
    text = HEAD.replace(" divisible(16)", "").replace(" divisible(64)", "")
    parsed = parse_program(text + "func @main(%x: f32[4]) {\n  launch @r(%x)\n  return\n}\n")
    assert not Analyses(parsed).get(analyse_alignment).pointers


def test_congruences() -> None:
    multiple, odd = Congruence(16), Congruence(16, 8)
    assert multiple.plus(odd) == odd
    assert odd.plus(odd) == multiple
    assert multiple.join(odd) == Congruence(8)
    assert multiple.plus(Congruence(0, 20)) == Congruence(16, 4)
    assert Congruence(64, 4).join(Congruence(16, 4)) == Congruence(16, 4)
    assert Congruence().meet(odd) == odd


def test_another_device_aligns_as_its_allocators_do() -> None:
    text = "wir 0.5\ntarget cuda:0\n\nfunc @main() {\n  %s = alloc_storage 64 align(256)\n  free %s\n  return\n}\n"
    assert "align" not in print_program(MoveDevice(to="cpu").run(parse_program(text)))
