"""Control flow and ownership in the interpreter, on a machine in plain Python."""

from __future__ import annotations

from typing import Any

import pytest
from packages.wrapper_ir_runtime.tests.interp.interp_case import OPTIONS, X, artifact
from packages.wrapper_ir_runtime.tests.interp.list_machine import ListMachine, find_runtime, tensor

from wrapper_ir import ir
from wrapper_ir.errors import ExecutionError
from wrapper_ir_runtime.interp import InterpOptions, Interpreter

BRANCHES = """
func @main(%p: bool[], %x: f32[2]) {
  define s0 = size(%x, 0)
  %r = cond PREDICATE then @negate else @same (%x) : f32[s0]
  return %r
}
func @negate(%x: f32[2]) captures(s0) {
  %y = call list::neg(%x) : f32[2]
  return %y
}
func @same(%x: f32[2]) captures(s0) {
  %y = call list::add(%x, %x) : f32[2]
  return %y
}
"""


@pytest.mark.parametrize(
    ("predicate", "flag", "want"),
    [
        ("%p", True, [-1.0, 2.0]),
        ("%p", False, [2.0, -4.0]),
        ("s0 == 2", False, [-1.0, 2.0]),
        ("s0 == 3", True, [2.0, -4.0]),
    ],
)
def test_cond(predicate: str, flag: bool, want: list[float]) -> None:
    interpreter = Interpreter(artifact(BRANCHES.replace("PREDICATE", predicate)), ListMachine(), OPTIONS)
    (result,) = interpreter.boxed([tensor(flag, ir.DType.BOOL), tensor(X)])
    assert result.tolist() == want


SWITCH = """
func @main(%i: i64[], %x: f32[2]) {
  define s0 = size(%x, 0)
  %r = switch INDEX [@negate, @same, @negate] (%x) : f32[s0]
  return %r
}
""" + BRANCHES[BRANCHES.index("func @negate") :]


@pytest.mark.parametrize(
    ("index", "given", "want"),
    [
        ("%i", 0, [-1.0, 2.0]),
        ("%i", 1, [2.0, -4.0]),
        ("%i", 2, [-1.0, 2.0]),
        ("s0 - 1", 5, [2.0, -4.0]),
        ("2", 5, [-1.0, 2.0]),
    ],
)
def test_switch(index: str, given: int, want: list[float]) -> None:
    interpreter = Interpreter(artifact(SWITCH.replace("INDEX", index)), ListMachine(), OPTIONS)
    (result,) = interpreter.boxed([tensor(given, ir.DType.I64), tensor(X)])
    assert result.tolist() == want


@pytest.mark.parametrize("index", [-1, 3])
def test_an_index_outside_of_the_branches_is_an_error(index: int) -> None:
    interpreter = Interpreter(artifact(SWITCH.replace("INDEX", "%i")), ListMachine(), OPTIONS)
    with pytest.raises(ExecutionError, match=rf"WIR932.*3 branches is given index {index}"):
        interpreter.boxed([tensor(index, ir.DType.I64), tensor(X)])


LOOP = """
func @main(%i: i64[], %x: f32[2], %w: f32[2]) {
  %j, %y, %n = while @test do @body carried(%i, %x, 0) captured(%w)STACKED : i64[], f32[2], int
  return %j, %y, %n
}
func @test(%i: i64[], %x: f32[2], %n: int, %w: f32[2]) {
  %go = call list::less(%i, 3) : bool[]
  return %go
}
func @body(%i: i64[], %x: f32[2], %n: int, %w: f32[2]) {
  define u0 = item(%n)
  %j = call list::add(%i, %i) : i64[]
  %y = call list::add(%x, %w) : f32[2]
  return %j, %y, u0 + 1
}
"""


def loop(
    start: int, *, stacked: bool = False, poison: int | None = 0x5A
) -> tuple[Interpreter[Any], list[Any], list[Any]]:
    text = LOOP.replace("STACKED", " stacked" if stacked else "")
    if stacked:
        text = text.replace(": i64[], f32[2], int", ": i64[u0], f32[u0, 2], int")
    options = InterpOptions(poison=poison, find_runtime=find_runtime)
    interpreter = Interpreter(artifact(text), ListMachine(), options)
    inputs = [tensor(start, ir.DType.I64), tensor(X), tensor([10.0, 20.0])]
    results = list(interpreter.boxed([*inputs]))
    return interpreter, inputs, results


@pytest.mark.parametrize(
    ("start", "want"), [(5, (5, X, 0)), (2, (4, [11.0, 18.0], 1)), (1, (4, [21.0, 38.0], 2))]
)
def test_while(start: int, want: tuple[Any, ...]) -> None:
    """Memory of freed trips is poisoned, initial values are not."""
    _, inputs, (j, y, n) = loop(start)
    assert (j.tolist(), y.tolist(), n) == want
    assert inputs[1].tolist() == X
    assert inputs[0].tolist() == start


def test_results_of_a_loop_have_storage_of_their_own() -> None:
    for start in (5, 2):
        _, inputs, results = loop(start)
        assert not {id(x.memory) for x in inputs} & {id(r.memory) for r in results[:2]}


@pytest.mark.parametrize(
    ("start", "want"),
    [(5, ([5], [X])), (2, ([4], [[11.0, 18.0]])), (1, ([2, 4], [[11.0, 18.0], [21.0, 38.0]]))],
)
def test_stacked_while(start: int, want: tuple[Any, ...]) -> None:
    """Without a trip, the initial values are one row."""
    _, _, (j, y, _) = loop(start, stacked=True)
    assert (j.tolist(), y.tolist()) == want


def test_a_loop_holds_two_generations() -> None:
    """16 bytes a trip (one i64 and two f32), two trips alive at once, and the predicate."""
    interpreter, _, _ = loop(1)
    assert interpreter.memory.peak_bytes <= 2 * 16 + 1
    assert interpreter.memory.live_bytes == 16


MOVES = """
func @main(%x: f32[2]) {
  %a = call list::neg(%x) : f32[2]
  %v = view %a : f32[1]
  %b = call_subgraph @consume(%a) : f32[2]
  return %b
}
func @consume(%a: owned f32[2]) {
  %b = call list::neg(%a) : f32[2]
  free %a
  %c = call list::neg(%b) : f32[2]
  free %b
  return %c
}
"""


def test_moved_arguments_end_in_the_callee() -> None:
    interpreter = Interpreter(artifact(MOVES), ListMachine(), OPTIONS)
    (result,) = interpreter.boxed([tensor(X)])
    assert result.tolist() == [-1.0, 2.0]
    assert interpreter.memory.storages == 3
    assert interpreter.memory.peak_bytes == 16
