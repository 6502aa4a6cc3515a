"""Hunts the first bad value."""

from __future__ import annotations

import math
from typing import Any

import pytest
from packages.wrapper_ir_runtime.tests.interp.list_machine import tensor
from packages.wrapper_ir_tools.tests.debugger.debug_case import LOOP, subject

from wrapper_ir.errors import ExecutionError
from wrapper_ir_tools.debugger.hunt import Bad, HuntOptions, hunt
from wrapper_ir_tools.debugger.kept_states import StateLimits
from wrapper_ir_tools.debugger.reports import bad_lines


def chain(length: int, wrong: int, op: str = "list::log") -> str:
    """A program of `length` ops, of which `wrong` takes the logarithm of a negative number."""
    lines = ["func @main(%v0: f32[2]) {"]
    for i in range(length):
        target = op if i == wrong else "list::neg"
        lines.append(f"  %v{i + 1} = call {target}(%v{i}) : f32[2]")
        lines += [f"  free %v{i}"] if i else []
    return "\n".join([*lines, f"  return %v{length}", "}", ""])


@pytest.mark.parametrize("wrong", [1, 3, 21, 37, 59])
@pytest.mark.parametrize("states", [1, 3, 8])
@pytest.mark.parametrize("every_op", [False, True])
def test_chain(wrong: int, states: int, every_op: bool) -> None:
    case = subject(chain(60, wrong), tensor([1.0, 2.0]))
    result = hunt(case, HuntOptions(every_op=every_op, limits=StateLimits(count=states)))
    assert result is not None
    assert result.names == (f"v{wrong + 1}",)
    assert result.function is case.program.main
    assert result.runs <= 2 + math.ceil(math.log2(len(case.program.main.body)))


def test_nothing_is_bad() -> None:
    # the logarithm of a positive number
    assert hunt(subject(chain(20, 4), tensor([1.0, 2.0]))) is None


def test_inputs_come_first() -> None:
    result = hunt(subject(chain(5, 1), tensor([math.nan, math.inf])))
    assert result is not None
    assert result.function is None
    assert list(bad_lines(result)) == ["an input or a constant is bad:", "  %v0: f32[2] nan 1, inf 1"]


@pytest.mark.parametrize(
    ("options", "want"),
    [
        (HuntOptions(), "v0"),
        (HuntOptions(nan_only=True), "v2"),
        (HuntOptions(ignore=("v0", "v1")), "v2"),
        (HuntOptions(ignore=("v*",)), None),
    ],
)
def test_what_is_looked_for(options: HuntOptions, want: str | None) -> None:
    result = hunt(subject(chain(8, 1), tensor([math.inf, 2.0])), options)
    assert (result and result.names[0]) == want


def test_inside_a_loop() -> None:
    # -(-1) = 1, 2 + log 2, ...; the second element becomes negative and has no logarithm
    result = hunt(subject(LOOP, tensor([-1.0, 0.25])))
    assert result is not None
    assert list(bad_lines(result)) == [
        "op 1 of @step is the first with a bad output (2 runs):",
        "  %l: f32[2] mean 0.693147, min 0.693147, max 0.693147, std nan, nan 1, inf 0",
        "func @step:",
        "  %b = call list::add(%a, %a) : f32[2]",
        "  %l = call list::log(%b) : f32[2]",
        "  ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^",
        "  %s = call list::add(%b, %l) : f32[2]",
        "  free %b",
        "  ...",
        "it was given:",
        "  %b: f32[2] mean 0.75, min -0.5, max 2, std 1.76777, nan 0, inf 0",
    ]


UNWRITTEN = """
func @main(%x: f32[2]) {
  %a = alloc f32[2]
  %b = alloc f32[2]
  copy %b, %x
  %c = reuse %b : f64[1]
  %d = view %c : f32[2]
  copy %d, %a
  return %d
}
"""


def test_what_nothing_has_written_is_not_bad() -> None:
    # 0xEEEEEEEE is the initial content of the machine's memory; as f64, it may be any value
    assert hunt(subject(UNWRITTEN, tensor([math.ldexp(1, 100), 2.0])), HuntOptions(every_op=True)) is None


FAILS = """
func @main(%x: f32[2]) {
  %a = call list::log(%x) : f32[2]
  %b = call list::neg(%a) : f32[2]
  RAISES
  return %b
}
"""


@pytest.mark.parametrize("raises", ["assert_finite %b", "%f = call list::fail(%b) : f32[2]"])
def test_a_run_that_fails(raises: str) -> None:
    text = FAILS.replace("RAISES", raises)
    result = hunt(subject(text, tensor([1.0, -1.0])))
    assert result is not None
    assert result.names == ("a",)


def test_a_run_that_fails_without_a_bad_value() -> None:
    with pytest.raises(ZeroDivisionError):
        hunt(subject(FAILS.replace("RAISES", "%f = call list::fail(%b) : f32[2]"), tensor([1.0, 2.0])))
    case = subject(FAILS.replace("RAISES", "define s0 = size(%b, 0)\n  assert s0 > 4"), tensor([1.0, 2.0]))
    with pytest.raises(ExecutionError, match="WIR920"):
        hunt(case)


def test_state_is_the_same_in_each_run() -> None:
    text = """
func @main(%x: f32[2]) {
  call list::add.out(%state, %x, out=%state)
  %a = call list::neg(%state) : f32[2]
  %b = call list::log(%a) : f32[2]
  return %b
}
"""
    case = subject(text, tensor([-1.0, -1.0]))
    results: list[Bad | None] = [hunt(case) for _ in range(3)]
    # the state grows by one in each run, from zero
    assert results == [None] * 3
    values: Any = case.interpreter.constants
    assert [v.tolist() for v in values.values()] == [[-1.0, -1.0]]
