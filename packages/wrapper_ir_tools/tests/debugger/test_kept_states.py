"""Kept states of a run: resuming from any of them yields the results of the whole run."""

from __future__ import annotations

import pytest
from packages.wrapper_ir_runtime.tests.interp.list_machine import tensor
from packages.wrapper_ir_tools.tests.debugger.debug_case import BRANCH, LOOP, MEMORY, subject

from wrapper_ir import ir
from wrapper_ir.errors import ExecutionError
from wrapper_ir_tools.debugger.kept_states import KeptStates, StateLimits, can_keep
from wrapper_ir_tools.debugger.subject import Kept, Run, Subject

DRAWS = """
func @main(%x: f32[2]) {
  %a = call list::draw(%x) : f32[2]
  %b = call list::draw(%a) : f32[2]
  return %a, %b
}
"""


def finish(run: Run) -> list[object]:
    while True:
        try:
            next(run)
        except StopIteration as done:
            return [r.tolist() if hasattr(r, "tolist") else r for r in done.value]


def states_of(case: Subject) -> list[Kept]:
    return [case.keep(step) for step in case.run() if can_keep(step)]


@pytest.mark.parametrize("text", [MEMORY, LOOP, DRAWS], ids=["memory", "loop", "draws"])
def test_the_rest_of_a_run(text: str) -> None:
    case = subject(text, tensor([-1.0, -2.0]))
    whole = finish(case.run())
    states = states_of(case)
    assert len(states) == len(case.program.main.body)
    # a run does not change the state that it resumes from
    for state in (*states, *reversed(states)):
        assert finish(case.run(state)) == whole
    assert finish(case.run()) == whole


def test_a_state_with_nested_results_cannot_be_kept() -> None:
    case = subject(BRANCH, tensor(True, ir.DType.BOOL), tensor([1.0, 2.0]))
    assert finish(case.run()) == [[1.0, 2.0], 2]
    refused = [step for step in case.run() if step.depth == 0 and not can_keep(step)]
    assert [type(step.op).__name__ for step in refused] == ["Unpack", "Drop"]
    inside = next(step for step in case.run() if step.depth)
    with pytest.raises(ExecutionError, match="WIR951"):
        case.keep(inside)
    for step in case.run():
        if isinstance(step.op, ir.Unpack):
            with pytest.raises(ExecutionError, match=r"WIR951.*%t is a nested result"):
                case.keep(step)


@pytest.mark.parametrize("count", [1, 2, 3, 8])
def test_states_are_spread_and_bounded(count: int) -> None:
    body = "".join(f"  %v{i + 1} = call list::neg(%v{i}) : f32[2]\n  free %v{i}\n" for i in range(1, 40))
    text = f"func @main(%x: f32[2]) {{\n  %v1 = call list::neg(%x) : f32[2]\n{body}  return %v40\n}}\n"
    case = subject(text, tensor([1.0, 2.0]))
    states = KeptStates(case, StateLimits(count=count))
    for step in case.run():
        states.offer(step)
        assert len(states.positions) <= count
    assert states.positions[0] == 0
    gaps = {b - a for a, b in zip(states.positions, states.positions[1:])}
    assert len(gaps) <= 2
    assert states.before(0) is not None
    last = states.before(len(case.program.main.body))
    assert last is not None
    assert last.state.position == states.positions[-1]


def test_states_are_bounded_in_bytes() -> None:
    case = subject(MEMORY, tensor([1.0, -2.0]))
    states = KeptStates(case, StateLimits(count=100, nbytes=300))
    for step in case.run():
        states.offer(step)
    result = [states.before(p) for p in states.positions]
    assert sum(k.state.nbytes for k in result if k is not None) <= 300
    assert 1 < len(result) < len(case.program.main.body)
