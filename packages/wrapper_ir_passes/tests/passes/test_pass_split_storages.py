"""`split-storages`: text in, text out; storages that stay whole; runs with poisoned memory; random programs."""

from __future__ import annotations

import random

import pytest
from packages.wrapper_ir_runtime.tests.interp.interp_case import HEADER, STATE
from packages.wrapper_ir_runtime.tests.interp.list_machine import ListMachine, find_runtime, tensor

from wrapper_ir import ir, parse_program, print_program
from wrapper_ir.artifact import bare_artifact
from wrapper_ir_passes import run_pipeline
from wrapper_ir_passes.analysis.stats import program_stats
from wrapper_ir_passes.cleanup.derive_frees import derive_frees
from wrapper_ir_passes.memory.plan_memory import PlanMemory
from wrapper_ir_passes.memory.split_storages import SplitStorages
from wrapper_ir_runtime.interp import InterpOptions, run
from wrapper_ir_tools.testing import random_program

PLAN = PlanMemory(slack=100)


def _program(body: str, params: str = "%x: f32[2]") -> ir.Program:
    return derive_frees(parse_program(f"{HEADER}func @main({params}) {{{body}}}\n"))


def _split(program: ir.Program) -> str:
    """Returns the body of main after the pass, which is verified and compared; the peak does not increase."""
    after = run_pipeline(program, (SplitStorages(),))
    text = print_program(after)
    old, new = program_stats(program).memory, program_stats(after).memory
    assert (new.live, new.bound) <= (old.live, old.bound)
    return text[text.index("func @main") :].split("{\n", 1)[1].rsplit("}", 1)[0]


def _results(program: ir.Program) -> list[object]:
    """Returns the results of a run whose memory starts with a pattern."""
    options = InterpOptions(find_runtime=find_runtime, poison=0x7B)
    result = run(bare_artifact(program, {"state": STATE}), [tensor([1.0, -2.0])], ListMachine(), options)
    return [r.tolist() for r in result]


TWICE = """
  %a = alloc f32[2]
  call list::add.out(%x, %x, out=%a)
  %b = alloc f32[2]
  call list::add.out(%a, %a, out=%b)
  {between}
  {again}
  %p = call list::neg(%a) : f32[2]
  %q = call list::neg(%b) : f32[2]
  return %p, %q
"""
BETWEEN = "%c = alloc f32[2]\n  call list::add.out(%b, %b, out=%c)\n  copy %b, %c"
AGAIN = "call list::add.out(%x, %x, out=%a)"


def test_two_of_one() -> None:
    assert (
        _split(_program(TWICE.format(between=BETWEEN, again=AGAIN)))
        == """\
  %a = alloc f32[2]
  call list::add.out(%x, %x, out=%a)
  %b = alloc f32[2]
  call list::add.out(%a, %a, out=%b)
  free %a.s
  %c = alloc f32[2]
  call list::add.out(%b, %b, out=%c)
  copy %b, %c
  free %c.s
  %a.s.1 = alloc_storage 8
  %a.1 = view %a.s.1 : f32[2]
  call list::add.out(%x, %x, out=%a.1)
  drop %x
  %p = call list::neg(%a.1) : f32[2]
  free %a.s.1
  %q = call list::neg(%b) : f32[2]
  free %b.s
  return %p, %q
"""
    )


def test_another_storage_takes_the_place() -> None:
    """Planned, three storages need no more than two."""
    program = _program(TWICE.format(between=BETWEEN, again=AGAIN))
    split = run_pipeline(program, (SplitStorages(), PLAN))
    whole = run_pipeline(program, (PLAN,))
    assert program_stats(split).memory.allocated == program_stats(whole).memory.allocated - 8
    assert {"a.s", "a.s.1", "c.s"} <= {op.result.name for op in split.ops if isinstance(op, ir.Slot)}
    assert _results(split) == _results(program)


@pytest.mark.parametrize(
    ("between", "again"),
    [
        (BETWEEN, ""),  # the content is read again
        (BETWEEN, "launch @count_grid(%a) grid(2, 1, 1)"),  # while it is overwritten
        (BETWEEN, "%h = view %a : f32[1]\n  %y = view %x : f32[1]\n  call list::add.out(%y, %y, out=%h)"),
        ("", AGAIN),  # no op in between
        ("%v = view %b : f32[2]", AGAIN),
        (
            BETWEEN.replace("%b, %b", "%b, %r").replace("%c = ", "%r = ensure_aligned %a, 16\n  %c = ", 1),
            AGAIN,
        ),  # which may be %a
    ],
)
def test_what_stays_one(between: str, again: str) -> None:
    program = _program(TWICE.format(between=between, again=again))
    after = run_pipeline(program, (SplitStorages(),))
    assert [op.result for op in after.ops if isinstance(op, ir.AllocStorage)] == [
        op.result for op in program.ops if isinstance(op, ir.AllocStorage)
    ]
    assert _results(after) == _results(program)


def test_views_of_each_part() -> None:
    """Through two halves: a name that both parts use is created again, one of the second part is not."""
    again = """%h = view %a : f32[1]
  %g = view %a + 4 : f32[1]
  %y = view %x : f32[1]
  call list::add.out(%y, %y, out=%h)
  call list::add.out(%y, %y, out=%g)"""
    program = _program(TWICE.format(between=BETWEEN, again=again))
    text = _split(program)
    assert "%h = view %a.s.1 : f32[1]" in text
    assert "%g = view %a.s.1 + 4 : f32[1]" in text
    assert "%a.1 = view %a.s.1 : f32[2]" in text
    assert _results(run_pipeline(program, (SplitStorages(), PLAN))) == _results(program)


def test_a_reuse_ends() -> None:
    """A name that took over the storage belongs to the second part, which is returned."""
    body = TWICE.format(between=BETWEEN, again="%n = reuse %a : f32[2]\n  call list::add.out(%x, %x, out=%n)")
    program = _program(body.replace("neg(%a)", "neg(%n)").replace("return %p", "return %n, %p"))
    assert "reuse" in print_program(program)
    text = _split(program)
    assert "reuse" not in text
    assert "%n = view %a.s.1 : f32[2]" in text
    assert _results(run_pipeline(program, (SplitStorages(), PLAN))) == _results(program)


@pytest.mark.parametrize(
    ("view", "is_split"), [("%v = view %a : f32[s0]", True), ("%v = view %a : f32[2]", False)]
)
def test_symbolic_sizes(view: str, is_split: bool) -> None:
    """At one place for all sizes, or not provably so."""
    body = TWICE.format(between=BETWEEN, again=f"{view}\n  call list::add.out({{x}}, {{x}}, out=%v)")
    body = body.replace("f32[2]", "f32[s0]").replace("%v = view %a : f32[s0]", view)
    body = body.format(x="%x" if is_split else "%y")
    text = _split(_program(f"\n  define s0 = size(%x, 0){body}", "%x: f32[s0], %y: f32[2]"))
    assert ("%a.s.1" in text) is is_split


def test_random_programs() -> None:
    for seed in range(15):
        program = derive_frees(random_program(random.Random(seed), 40))
        result = run_pipeline(program, (SplitStorages(),))
        before, after = program_stats(program).memory, program_stats(result).memory
        assert after.bound <= before.bound
        assert after.live <= before.live
