"""Reorders streams legally: only a race changes the results."""

from __future__ import annotations

from dataclasses import replace

import pytest
from packages.wrapper_ir_runtime.tests.interp.interp_case import OPTIONS, artifact
from packages.wrapper_ir_runtime.tests.interp.list_machine import ListMachine, tensor
from packages.wrapper_ir_tools.tests.debugger.debug_case import subject

from wrapper_ir.artifact import Artifact
from wrapper_ir.errors import VerificationError
from wrapper_ir.text import print_op
from wrapper_ir.verifier import verify
from wrapper_ir_tools.debugger.compare import Comparison, compare_runs
from wrapper_ir_tools.debugger.samples import samples
from wrapper_ir_tools.debugger.streams import StreamOrder, other_stream_order
from wrapper_ir_tools.debugger.subject import InputChoice, Subject

ORDERED = """
func @main(%x: f32[2]) {
  %in = alloc f32[2] @toy:0
  %a = alloc f32[2] @toy:0
  %b = alloc f32[2] @toy:0
  copy %in, %x
  call list::add.out(%in, %in, out=%a)
  %ready = record_event @toy:0
  wait_event %ready @toy:0 stream(1)
  drop %ready
  call list::add.out(%a, %in, out=%b) stream(1)
  %done = record_event @toy:0 stream(1)
  wait_event %done @toy:0
  drop %done
  call list::add.out(%b, %b, out=%a)
  free %in.s
  free %b.s
  return %a
}
"""
READ_TOO_EARLY = ORDERED.replace("  wait_event %done @toy:0\n", "")
WRITTEN_TOO_LATE = ORDERED.replace("  wait_event %ready @toy:0 stream(1)\n", "")


def on_toy(text: str) -> Artifact:
    return artifact(text)


def in_other_order(text: str, order: StreamOrder) -> Comparison:
    program = on_toy(text)
    changed = replace(program, program=other_stream_order(program.program, order))
    x = InputChoice(values=[tensor([1.0, 2.0])])
    first, second = (Subject(a, ListMachine(), x, OPTIONS) for a in (program, changed))
    return compare_runs(samples(first), samples(second))


@pytest.mark.parametrize("order", StreamOrder)
def test_what_events_order(order: StreamOrder) -> None:
    verify(on_toy(ORDERED))
    assert in_other_order(ORDERED, order).agree


@pytest.mark.parametrize(
    ("text", "order", "result"),
    [
        (READ_TOO_EARLY, StreamOrder.LATE, True),
        (READ_TOO_EARLY, StreamOrder.EARLY, False),
        (WRITTEN_TOO_LATE, StreamOrder.EARLY, True),
    ],
)
def test_a_race(text: str, order: StreamOrder, result: bool) -> None:
    with pytest.raises(VerificationError, match="WIR045"):
        verify(on_toy(text))
    assert in_other_order(text, order).agree is not result


def test_memory_freed_too_early_is_an_error() -> None:
    result = in_other_order(
        READ_TOO_EARLY.replace("call list::add.out(%b, %b, out=%a)", "barrier"), StreamOrder.LATE
    )
    assert result.failed == 2
    assert "WIR923" in str(result.failure)


def test_the_order() -> None:
    program = on_toy(ORDERED.replace("  free %b.s\n", "")).program
    late = other_stream_order(program, StreamOrder.LATE).main.body
    early = other_stream_order(program, StreamOrder.EARLY).main.body
    # each event is waited for right after it is recorded
    assert late == program.main.body
    assert [print_op(op) for op in early] == [print_op(op) for op in program.main.body]


def test_one_stream_stays_as_it_is() -> None:
    program = artifact(
        "func @main(%x: f32[2]) {\n  %a = call list::neg(%x) : f32[2]\n  return %a\n}\n"
    ).program
    assert other_stream_order(program, StreamOrder.LATE) is program
    assert subject("func @main(%x: f32[2]) {\n  return %x\n}\n", tensor([1.0, 2.0])).program.main.body
