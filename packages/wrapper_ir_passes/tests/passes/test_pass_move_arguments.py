"""Arguments that a call may keep: text in, text out."""

from __future__ import annotations

import random

import pytest

from wrapper_ir import check, ir, parse_program, print_program
from wrapper_ir_passes import run_pipeline
from wrapper_ir_passes.cleanup.derive_frees import derive_frees
from wrapper_ir_passes.cleanup.move_arguments import move_arguments
from wrapper_ir_passes.translation import compare
from wrapper_ir_tools.testing import RandomOptions, random_program

HEAD = """wir 0.5
target cpu

extern "aten::relu(Tensor self) -> Tensor"
extern "aten::reshape(Tensor(a) self, SymInt[] shape) -> Tensor(a)" tags(may_alias)

const %w : f32[8]

"""

EARLY = """
func @{name}(%p: f32[8]) {{
  %c = call aten::relu(%p) : f32[8]
  %d = call aten::relu(%c) : f32[8]
  return %d
}}
"""
"""A function that needs its argument for its first op only."""

MAKE = "%a = call aten::relu(%x) : f32[8]"
CALL = "%r = call_subgraph @f(%a) : f32[8]"
COND = "%r = cond %q then @f else @g (%a) : f32[8]"

MOVED = {
    "what is dead after a call": (f"func @main(%x: f32[8]) {{\n{MAKE}\n{CALL}\nreturn %r\n}}", "f"),
    "a view of it, alone": (
        f"func @main(%x: f32[8]) {{\n{MAKE}\n%v = view %a : f32[8]\n%r = call_subgraph @f(%v) : f32[8]\nreturn %r\n}}",
        "f",
    ),
    "into both branches": (f"func @main(%q: bool[], %x: f32[8]) {{\n{MAKE}\n{COND}\nreturn %r\n}}", "fg"),
    "an owned input": (
        "func @main(%a: owned f32[8]) {\n%r = call_subgraph @f(%a) : f32[8]\nreturn %r\n}",
        "f",
    ),
    "from every call": (
        f"func @main(%x: f32[8]) {{\n{MAKE}\n{CALL}\n%s = call_subgraph @f(%r) : f32[8]\nreturn %s\n}}",
        "f",
    ),
    "through several functions": (
        f"func @main(%x: f32[8]) {{\n{MAKE}\n%r = call_subgraph @h(%a) : f32[8]\nreturn %r\n}}\n"
        "func @h(%p: f32[8]) {\n%r = call_subgraph @f(%p) : f32[8]\nreturn %r\n}",
        "fh",
    ),
    "inside a loop": (
        "func @main(%q: bool[], %x: f32[8]) {\n"
        "%r = while @go do @step carried(%x) captured(%q) : f32[8]\nreturn %r\n}\n"
        "func @go(%p: f32[8], %q: bool[]) {\nreturn %q\n}\n"
        f"func @step(%x: f32[8], %q: bool[]) {{\n{MAKE}\n{CALL}\nreturn %r\n}}",
        "f",
    ),
}

KEPT = {
    "an input": "func @main(%a: f32[8]) {\n%r = call_subgraph @f(%a) : f32[8]\nreturn %r\n}",
    "a constant": "func @main() {\n%r = call_subgraph @f(%w) : f32[8]\nreturn %r\n}",
    "what is used again": f"func @main(%x: f32[8]) {{\n{MAKE}\n{CALL}\nassert_finite %a\nreturn %r\n}}",
    "what a view of is used again": (
        f"func @main(%x: f32[8]) {{\n{MAKE}\n%v = view %a : f32[4]\n{CALL}\nassert_finite %v\nreturn %r\n}}"
    ),
    "what is returned": f"func @main(%x: f32[8]) {{\n{MAKE}\n{CALL}\nreturn %r, %a\n}}",
    "what may alias": (
        "func @main(%x: owned f32[8]) {\n%a = call aten::reshape(%x, [8]) : f32[8]\n"
        + CALL
        + "\nreturn %r\n}"
    ),
    "what only one call ends": (
        f"func @main(%x: f32[8]) {{\n{MAKE}\n{CALL}\n%s = call_subgraph @f(%x) : f32[8]\nreturn %r, %s\n}}"
    ),
    "what only one branch can own": (
        f"func @main(%q: bool[], %x: f32[8]) {{\n{MAKE}\n{COND}\n"
        "%s = call_subgraph @g(%x) : f32[8]\nreturn %r, %s\n}"
    ),
    "the storage of the predicate": (
        "func @main(%x: f32[8]) {\n%a = call aten::relu(%x) : f32[8]\n%q = view %a : bool[1]\n"
        "%r = cond %q then @f else @g (%a) : f32[8]\nreturn %r\n}"
    ),
    "what a loop takes": (
        f"func @main(%q: bool[], %x: f32[8]) {{\n{MAKE}\n"
        "%r = while @go do @step carried(%a) captured(%q) : f32[8]\nreturn %r\n}\n"
        "func @go(%p: f32[8], %q: bool[]) {\nreturn %q\n}\n"
        "func @step(%p: f32[8], %q: bool[]) {\n%r = call_subgraph @f(%p) : f32[8]\nreturn %r\n}"
    ),
    "what a function between has borrowed": (
        "func @main(%x: f32[8]) {\n%r = call_subgraph @h(%x) : f32[8]\nreturn %r\n}\n"
        "func @h(%p: f32[8]) {\n%r = call_subgraph @f(%p) : f32[8]\nreturn %r\n}"
    ),
}


def _program(text: str) -> ir.Program:
    functions = [EARLY.format(name=name) for name in "fg" if f"@{name}" in text]
    return derive_frees(parse_program(HEAD + text + "\n" + "".join(functions)))


def _owning(program: ir.Program) -> set[str]:
    """Returns the names of the functions besides main that own a parameter."""
    functions = program.functions[1:]
    return {f.name for f in functions if any(p.ownership is ir.Ownership.OWNED for p in f.params)}


@pytest.mark.parametrize("case", MOVED, ids=lambda c: c.replace(" ", "-").replace(",", ""))
def test_moved(case: str) -> None:
    text, owners = MOVED[case]
    program = _program(text)
    moved = run_pipeline(program, "move-arguments")
    assert _owning(moved) == set(owners)
    assert move_arguments(moved) == moved
    # the callee ends its argument after its first op, not the caller after the call
    assert "(%p) : f32[8]\n  free %p" in print_program(moved)


@pytest.mark.parametrize("case", KEPT, ids=lambda c: c.replace(" ", "-").replace(",", ""))
def test_kept(case: str) -> None:
    program = _program(KEPT[case])
    assert check(program) == ()
    assert move_arguments(program) == program


def test_a_returned_argument_stays_the_callers() -> None:
    text = f"func @main(%x: f32[8]) {{\n{MAKE}\n%r = call_subgraph @id(%a) : f32[8]\nreturn %r\n}}\n"
    program = derive_frees(parse_program(HEAD + text + "func @id(%p: f32[8]) {\nreturn %p\n}\n"))
    assert move_arguments(program) == program


def test_what_was_owned_stays_owned() -> None:
    text = f"func @main(%x: f32[8]) {{\n{MAKE}\n{CALL}\nreturn %r\n}}\n"
    text += "func @f(%p: owned f32[8]) {\n%r = reuse %p : f32[8]\nreturn %r\n}\n"
    program = derive_frees(parse_program(HEAD + text))
    assert move_arguments(program) == program


def test_a_write_to_what_was_moved_cannot_be_seen() -> None:
    """The final content of a callee's parameter is observed only if the caller keeps the argument."""
    write = "func @f(%p: f32[8]) {\n%d = call aten::relu(%w) : f32[8]\ncopy %p, %d\nreturn %d\n}\n"
    program = parse_program(HEAD + f"func @main(%x: f32[8]) {{\n{MAKE}\n{CALL}\nreturn %r\n}}\n" + write)
    program = derive_frees(program)
    moved = move_arguments(program)
    assert _owning(moved) == {"f"}
    assert compare(program, moved) is None
    without = parse_program(print_program(moved).replace("  copy %p, %d\n", ""))
    assert compare(moved, without) is None
    silent = parse_program(print_program(program).replace("  copy %p, %d\n", ""))
    assert compare(program, silent) is not None


def test_main_owns_what_it_owned() -> None:
    before = derive_frees(parse_program(HEAD + "func @main(%x: f32[8]) {\nreturn\n}\n"))
    after = derive_frees(parse_program(HEAD + "func @main(%x: owned f32[8]) {\nreturn\n}\n"))
    assert compare(before, after) is not None


@pytest.mark.parametrize("seed", range(40))
def test_random_programs(seed: int) -> None:
    """Moves keep random programs valid, with unchanged behaviour."""
    program = random_program(random.Random(seed), 25, RandomOptions(executable=seed % 2 == 0))
    moved = run_pipeline(program, "move-arguments")
    assert compare(program, moved) is None
    assert move_arguments(moved) == moved
