"""Passes that plan memory separate storages that must not share bytes, and join the others.

Each known error of memory reuse has a program here, for which the passes must not make the wrong plan. Each
has a wrong plan (`invalid_*.wir` beside the verifier's tests), which the verifier must refuse.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from packages.wrapper_ir_runtime.tests.interp.interp_case import HEADER, STATE
from packages.wrapper_ir_runtime.tests.interp.list_machine import ListMachine, find_runtime, tensor

from wrapper_ir import check, ir, parse_program
from wrapper_ir.analysis.liveness import analyse_liveness
from wrapper_ir.analysis.memo import Analyses
from wrapper_ir.artifact import bare_artifact
from wrapper_ir_passes import parse_pipeline, run_pipeline
from wrapper_ir_passes.analysis.memory import freed_at
from wrapper_ir_passes.cleanup.derive_frees import derive_frees
from wrapper_ir_runtime.interp import InterpOptions, run

PLAN = "plan-memory{slack=100}"  # slack, so that only aliasing separates storages
PIPELINES = (PLAN, f"use-out-variants,split-storages,reuse-in-place,{PLAN}")
INVALID = Path(__file__).parents[3] / "wrapper_ir" / "tests" / "verifier" / "invalid"
GPU = """wir 0.5
target cuda:0 arch "sm_90"

kernel foreign @f runtime "r" (read f32* src, write f32* dst) {{{
}}}
"""


@dataclasses.dataclass(frozen=True)
class Case:
    """`body` of main; `pair` are two storages that share bytes only if the lines `without` are removed.

    `wrong` are the verifier's programs of this class.
    """

    body: str
    pair: tuple[str, str]
    without: tuple[str, ...]
    wrong: tuple[str, ...]
    params: str = "%x: f32[2]"
    functions: str = ""
    head: str = HEADER

    def program(self, *, alone: bool = False) -> ir.Program:
        """The program with lifetimes; `alone`: without the lines that keep the two apart."""
        lines = [line.strip() for line in self.body.strip().splitlines()]
        assert set(self.without) <= set(lines)
        body = "".join(f"  {line}\n" for line in lines if not (alone and line in self.without))
        text = f"{self.head}func @main({self.params}) {{\n{body}}}\n{self.functions}"
        program = derive_frees(parse_program(text))
        assert check(program) == ()
        return program


def _add(source: str, target: str) -> str:
    return f"call list::add.out({source}, {source}, out={target})"


CASES = {
    "a live view": Case(
        f"""
        %a = alloc f32[2]
        {_add("%x", "%a")}
        %v = view %a : f32[2, 1]
        %b = alloc f32[2]
        {_add("%x", "%b")}
        %r = call list::neg(%v) : f32[2, 1]
        %s = call list::neg(%b) : f32[2]
        return %s
        """,
        ("a.s", "b.s"),
        ("%r = call list::neg(%v) : f32[2, 1]",),
        ("reuse_under_a_live_view",),
    ),
    "a write that a later reader sees": Case(
        f"""
        %a = alloc f32[2]
        {_add("%x", "%a")}
        %b = alloc f32[2]
        {_add("%a", "%b")}
        %c = alloc f32[2]
        {_add("%b", "%c")}
        %late = call list::add(%a, %c) : f32[2]
        %s = call list::neg(%c) : f32[2]
        return %s
        """,
        ("a.s", "c.s"),
        ("%late = call list::add(%a, %c) : f32[2]",),
        ("reuse_before_the_last_reader", "reuse_of_one_of_two_names", "split_before_the_last_reader"),
    ),
    "another stream": Case(
        """
        %e = record_event @cuda:0
        wait_event %e @cuda:0 stream(1)
        %a = alloc f32[8]
        launch @f(%x, %a)
        %d = record_event @cuda:0
        wait_event %d @cuda:0 stream(1)
        launch @f(%a, %y) stream(1)
        %b = alloc f32[8]
        launch @f(%x, %b)
        launch @f(%b, %z)
        %g = record_event @cuda:0 stream(1)
        wait_event %g @cuda:0
        return
        """,
        ("a.s", "b.s"),
        ("launch @f(%a, %y) stream(1)",),
        (
            "reuse_on_another_stream_without_an_event",
            "reuse_after_an_event_that_is_too_early",
            "reuse_under_a_stream_of_a_callee",
            "callee_leaves_work_in_a_lent_slot",
            "lent_slot_before_a_stream_is_done",
        ),
        params="%x: f32[8], %y: f32[8], %z: f32[8]",
        head=GPU,
    ),
    "a collective in flight": Case(
        f"""
        %a = alloc f32[2]
        {_add("%x", "%a")}
        %c = call list::neg(%a) : f32[2]
        %h = collective list::neg(%a) group("0") : f32[2]
        %b = alloc f32[2]
        {_add("%x", "%b")}
        %s = call list::neg(%b) : f32[2]
        %y = wait %h : f32[2]
        return %s
        """,
        ("a.s", "b.s"),
        ('%h = collective list::neg(%a) group("0") : f32[2]', "%y = wait %h : f32[2]"),
        ("reuse_of_an_argument_in_flight", "reuse_of_a_communication_buffer", "lent_slot_under_a_collective"),
    ),
    "a name that may alias": Case(
        f"""
        %a = alloc f32[2]
        {_add("%x", "%a")}
        %t = call list::nested(%a) : results
        %n = unpack %t["pair"][0] : f32[2]
        %b = alloc f32[2]
        {_add("%x", "%b")}
        %r = call list::neg(%n) : f32[2]
        %s = call list::neg(%b) : f32[2]
        return %s
        """,
        ("a.s", "b.s"),
        ("%r = call list::neg(%n) : f32[2]",),
        ("pool_ended_under_a_name", "pool_ended_under_a_nested_result", "lent_slot_has_ended"),
    ),
    "branches with different lifetimes": Case(
        f"""
        %a = alloc f32[2]
        {_add("%x", "%a")}
        %p = call list::less(%x, 0) : bool[2]
        %q = view %p : bool[]
        %r = cond %q then @same else @fresh (%a) : f32[2]
        %b = alloc f32[2]
        {_add("%x", "%b")}
        %n = call list::neg(%r) : f32[2]
        %s = call list::neg(%b) : f32[2]
        return %s
        """,
        ("a.s", "b.s"),
        ("%n = call list::neg(%r) : f32[2]",),
        (
            "reuse_of_what_one_branch_returns",
            "reuse_of_a_pool_that_one_branch_uses",
            "lent_slot_over_an_argument",
            "lent_slot_smaller_than_a_branch_needs",
            "loop_is_lent_what_it_carries",
            "loop_carries_a_lent_slot",
            "trip_reads_what_the_one_before_left",
        ),
        functions="""
func @same(%a: f32[2]) {
  %v = view %a : f32[2]
  drop %a
  return %v
}
func @fresh(%a: f32[2]) {
  %r = call list::neg(%a) : f32[2]
  drop %a
  return %r
}
""",
    ),
    "two names of one storage": Case(
        f"""
        %s = alloc_storage 8
        %one = view %s : f32[2]
        %two = view %s : f32[2]
        {_add("%x", "%one")}
        %a = call list::neg(%one) : f32[2]
        %b = alloc f32[2]
        {_add("%x", "%b")}
        %n = call list::neg(%two) : f32[2]
        %m = call list::neg(%b) : f32[2]
        return %m
        """,
        ("s", "b.s"),
        ("%n = call list::neg(%two) : f32[2]",),
        ("reuse_of_a_storage_with_two_names",),
    ),
}


def _shares(program: ir.Program, one: str, other: str) -> bool:
    """Returns whether two storages are slots of one pool with common bytes."""
    slots = {op.result.name: op for op in program.main.body if isinstance(op, ir.Slot)}
    if one not in slots or other not in slots:
        return False
    a, b = slots[one], slots[other]
    ends = [int(str(op.offset)) + int(str(op.result.type.nbytes)) for op in (a, b)]
    return a.pool == b.pool and int(str(a.offset)) < ends[1] and int(str(b.offset)) < ends[0]


def _results(program: ir.Program, poison: int | None) -> list[object]:
    options = InterpOptions(find_runtime=find_runtime, poison=poison)
    result = run(bare_artifact(program, {"state": STATE}), [tensor([1.0, -2.0])], ListMachine(), options)
    return [r.tolist() for r in result]


@pytest.mark.parametrize("pipeline", PIPELINES)
@pytest.mark.parametrize("name", CASES)
def test_plans(name: str, pipeline: str) -> None:
    """The plan shares bytes only if permitted, and gives the same results, poisoned or not."""
    case = CASES[name]
    assert _shares(run_pipeline(case.program(alone=True), parse_pipeline(pipeline)), *case.pair)
    program = case.program()
    planned = run_pipeline(program, parse_pipeline(pipeline))  # verifies and compares the program
    assert not _shares(planned, *case.pair)
    if case.head == HEADER:
        for poison in (None, 0x7B):
            assert _results(planned, poison) == _results(program, None)


@pytest.mark.parametrize("name", CASES)
def test_plans_in_another_order(name: str) -> None:
    """The two may share bytes if one is used before the other begins."""
    case = CASES[name]
    planned = run_pipeline(case.program(), parse_pipeline(f"reorder-for-memory,{PIPELINES[1]}"))
    if case.head == HEADER:
        assert _results(planned, 0x7B) == _results(case.program(), None)


@pytest.mark.parametrize("name", CASES)
def test_wrong_plans_are_refused(name: str) -> None:
    for wrong in CASES[name].wrong:
        findings = check(parse_program((INVALID / f"invalid_{wrong}.wir").read_text(encoding="utf-8")))
        assert findings, wrong


REUSED_INPUT = """
func @main(%x: owned f32[2]) {
  %v = view %x : f32[2, 1]
  %a = alloc f32[2]
  call list::add.out(%x, %x, out=%a)
  %b = alloc f32[2]
  call list::add.out(%a, %a, out=%b)
  %c = call list::neg(%b) : f32[2]
  return %v, %c
}
"""


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_an_output_keeps_the_input_that_it_aliases(pipeline: str) -> None:
    """Nothing overwrites a donated input under a returned view; otherwise it ends after its last use."""
    for text, is_held in ((REUSED_INPUT, True), (REUSED_INPUT.replace("return %v, %c", "return %c"), False)):
        program = derive_frees(parse_program(HEADER + text))
        planned = run_pipeline(program, parse_pipeline(pipeline))
        live = Analyses(planned).get_for(planned.main, analyse_liveness)
        (param,) = [p.value for p in planned.main.params]
        assert (freed_at(planned.main, live)[param] == len(planned.main.body) - 1) is is_held
        assert _results(planned, 0x7B) == _results(program, None)
    for name in ("reuse_of_an_input_that_an_output_aliases", "free_of_an_input_that_an_output_aliases"):
        assert check(parse_program((INVALID / f"invalid_{name}.wir").read_text(encoding="utf-8")))
