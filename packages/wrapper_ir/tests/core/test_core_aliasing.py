"""Storages that each value may be in: a function body in, the roots in words out."""

from __future__ import annotations

import pytest

from wrapper_ir import ir, parse_program
from wrapper_ir.analysis.memo import Analyses

HEAD = """wir 0.5
target cpu

const %w : f32[8]
mutable const %state : f32[8]

extern "aten::relu(Tensor self) -> Tensor"
extern "aten::relu_(Tensor(a!) self) -> Tensor(a!)"
extern "aten::t(Tensor(a) self) -> Tensor(a)"
extern "aten::reshape(Tensor(a) self, SymInt[] shape) -> Tensor(a)" tags(may_alias)
extern "aten::topk(Tensor self, SymInt k) -> (Tensor values, Tensor indices)"
extern "aten::split.Tensor(Tensor(a -> *) self, SymInt split_size, int dim=0) -> Tensor(a)[]"
extern "lib::both(Tensor(a) x) -> (Tensor(a), Tensor)"

func @main(%x: f32[8], %d: owned f32[8]) {
"""
CALLEES = """
func @pass(%a: f32[8], %b: f32[8]) {
  return %b
}
func @new(%a: f32[8], %b: f32[8]) {
  %r = call aten::relu(%a) : f32[8]
  return %r
}
func @pair(%a: f32[8], %b: f32[8]) {
  %r = call aten::relu(%a) : f32[8]
  %v = view %r : f32[8]
  return %r, %v
}
func @constant(%a: f32[8], %b: f32[8]) {
  return %state
}
"""

# body -> each value that it makes: its roots, `?` where it may or may not share; `!` marks those that are the function's
CASES = [
    ("", "x: x; d: d!"),
    ("%s = alloc_storage 64\n%v = view %s : f32[8]\n%u = view %v + 16 : f32[4]", "s: s!; v: s; u: s"),
    ("%p = alloc_storage 64 pool\n%s = slot %p : 32\n%v = view %s : f32[8]", "p: p!; s: s!; v: s"),
    ("%v = view %x : f32[8]", "v: x"),
    ("%v = view %w : f32[8]", "v: w"),
    ("%v = reuse %d : f32[8]", "v: d"),
    ("%y = call aten::relu(%x) : f32[8]\n%v = view %y : f32[4]", "y: y!; v: y"),
    ("%y = call aten::relu_(%x) : f32[8]", "y: x"),
    ("%y = call aten::t(%d) : f32[8]", "y: d"),
    ("%y = call aten::reshape(%x, [8]) : f32[8]", "y: y x?"),
    ("%y = call aten::reshape(%x, [8]) : f32[8]\n%v = view %y : f32[8]", "y: y x?; v: y x?"),
    ("%z = ensure_aligned %x, 16", "z: z x?"),
    ("%y = ensure_aligned %x, 16\n%z = ensure_aligned %y, 16\n%v = view %z : f32[8]", "y: y x?; z: z x?; v: z x?"),
    ("%y = ensure_aligned %d, 16\n%z = call aten::reshape(%y, [8]) : f32[8]", "y: y d?; z: z d?"),
    (
        "%y = ensure_aligned %x, 16\n%t = call aten::split.Tensor(%y, 4) : results\n%a = unpack %t[0] : f32[4]\n"
        "%z = ensure_aligned %a, 16",
        "y: y x?; t: y x?; a: x a?; z: z x?",
    ),
    ("%t = call aten::topk(%x, 5) : results\n%a = unpack %t[0] : f32[5]\n%b = unpack %t[1] : i64[5]", "a: a!; b: b!"),
    ("%t = call aten::topk(%x, 5) : results\n%a = unpack %t[0] : f32[5]\n%b = unpack %t[0] : f32[5]", "a: a!; b: a"),
    ("%t = call aten::split.Tensor(%x, 4) : results\n%a = unpack %t[0] : f32[4]", "t: x?; a: x a?"),
    ("%t = call lib::both(%x) : results\n%a = unpack %t[0] : f32[8]\n%b = unpack %t[1] : f32[8]", "t: x?; a: x a?; b: b!"),
    ("%y = call_subgraph @pass(%x, %d) : f32[8]", "y: d"),
    ("%y = call_subgraph @new(%x, %d) : f32[8]", "y: y!"),
    ("%y, %z = call_subgraph @pair(%x, %d) : f32[8], f32[8]", "y: y!; z: y"),
    ("%y = call_subgraph @constant(%x, %d) : f32[8]", "y: state"),
    ("%y = cond true then @pass else @new (%x, %d) : f32[8]", "y: y d?"),
    ("%y = cond true then @new else @new (%x, %d) : f32[8]", "y: y!"),
    ("%y = while @no do @pass carried(%x) captured(%d) : f32[8]", "y: y!"),
    ('%h = collective aten::relu(%x) group("0") : f32[8]\n%y = wait %h : f32[8]', "h: h!; y: h"),
]  # fmt: skip
NO = "func @no(%a: f32[8], %b: f32[8]) {\n  return false\n}\n"


def describe(body: str) -> str:
    program = parse_program(f"{HEAD}{body}\nreturn\n}}\n{CALLEES}{NO}")
    aliasing = Analyses(program).aliasing(program.main)
    constants = {c.value for c in program.constants}
    params = {p.value for p in program.main.params} if body else set[ir.Value]()

    def word(value: ir.Value) -> str:
        roots = " ".join(r.name for r in aliasing.roots[value])
        mark = "!" if value in aliasing.owned else ""
        return f"{value.name}: {roots}{'?' if value in aliasing.uncertain else ''}{mark}"

    return "; ".join(word(v) for v in aliasing.roots if v not in constants | params)


@pytest.mark.parametrize(
    ("body", "expected"), CASES, ids=[b.splitlines()[-1] if b else "parameters" for b, _ in CASES]
)
def test_roots(body: str, expected: str) -> None:
    assert describe(body) == expected


def test_what_set_storage_took_over_has_escaped() -> None:
    program = parse_program(f"{HEAD}set_storage %x, %d\nreturn\n}}\n")
    aliasing = Analyses(program).aliasing(program.main)
    assert {v.name for v in aliasing.escaped} >= {"d"}


def test_summaries_say_what_a_call_does() -> None:
    program = parse_program(
        HEAD
        + "return\n}\n"
        + "func @f(%a: f32[8], %b: f32[8], %c: owned f32[8]) {\n"
        + "  %v = view %b : f32[4]\n  call aten::relu_(%v)\n  call aten::relu_(%state)\n"
        + "  assert_finite %w\n  %r = call aten::reshape(%a, [8]) : f32[8]\n"
        + "  return %v, %c, %r, %w, 3\n}\n"
    )
    summary = Analyses(program).summary("f")
    assert summary.read_params == {0, 1}
    assert summary.written_params == {1}
    assert [v.name for v in summary.read_constants] == ["state"]
    assert [v.name for v in summary.written_constants] == ["state"]
    assert summary.classes == (ir.EffectClass.CHECK,)
    view, moved, unsure, constant, number = summary.results
    assert view is not None
    assert (view.params, view.certain) == ((1,), True)
    assert moved is not None
    assert (moved.params, [v.name for v in moved.own], moved.certain) == ((), ["c"], True)
    assert unsure is not None
    assert (unsure.params, unsure.certain) == ((0,), False)
    assert constant is not None
    assert [v.name for v in constant.constants] == ["w"]
    assert number is None
