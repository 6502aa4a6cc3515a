"""Compares two runs and names the first op that differs."""

from __future__ import annotations

import math
import struct
from dataclasses import replace

import pytest
from packages.wrapper_ir_runtime.tests.interp.interp_case import OPTIONS, artifact
from packages.wrapper_ir_runtime.tests.interp.list_machine import ListMachine, tensor
from packages.wrapper_ir_tools.tests.debugger.debug_case import LOOP, subject
from packages.wrapper_ir_tools.tests.debugger.wrong_emitter import Wrong

from wrapper_ir import ir
from wrapper_ir.artifact import TensorData
from wrapper_ir.verifier import verify
from wrapper_ir_runtime.interp import Interpreter
from wrapper_ir_runtime.tensor_text import TensorView
from wrapper_ir_tools.debugger.compare import Comparison, compare_constants, compare_runs
from wrapper_ir_tools.debugger.contents import Content
from wrapper_ir_tools.debugger.engines import engine_samples
from wrapper_ir_tools.debugger.reports import comparison_lines
from wrapper_ir_tools.debugger.samples import samples
from wrapper_ir_tools.debugger.subject import InputChoice, Subject
from wrapper_ir_tools.debugger.taps import tap_windows, tapped
from wrapper_ir_tools.debugger.tolerances import Tolerance, compare_contents

ADDS = """
func @main(%x: f32[2]) {
  %a = call list::add(%x, %x) : f32[2]
  %b = call list::neg(%a) : f32[2]
  free %a
  %c = alloc f32[2]
  copy %c, %b
  %d = call list::add(%c, %b) : f32[2]
  free %b
  free %c.s
  return %d
}
"""


def compare(first: Subject, second: Subject) -> Comparison:
    return compare_runs(samples(first), samples(second))


def test_equal_runs() -> None:
    x = tensor([-1.0, -2.0])
    result = compare(subject(LOOP, x), subject(LOOP, x))
    assert result.agree
    assert list(comparison_lines(result)) == [f"no difference: {result.matched} values agree"]
    assert result.matched > 10


def test_the_first_op_that_differs() -> None:
    other = ADDS.replace("list::neg(%a)", "list::add(%a, %x)")
    result = compare(subject(ADDS, tensor([1.0, 2.0])), subject(other, tensor([1.0, 2.0])))
    assert list(comparison_lines(result)) == [
        "op 1 of @main is the first that differs, after 1 equal values",
        "%b: 2 of 2 elements, the first at [0]: -2 against 3, at most 10 apart (allowed: 1e-05 + 0.0001*|b|)",
        "  first:  f32[2] mean -3, min -4, max -2, std 1.41421, nan 0, inf 0",
        "  second: f32[2] mean 4.5, min 3, max 6, std 2.12132, nan 0, inf 0",
        "func @main:",
        "  %a = call list::add(%x, %x) : f32[2]",
        "  %b = call list::neg(%a) : f32[2]",
        "  ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^",
        "  free %a",
        "  %c.s = alloc_storage 8",
        "  ...",
        "in the second program, op 1 of @main:",
        "func @main:",
        "  %a = call list::add(%x, %x) : f32[2]",
        "  %b = call list::add(%a, %x) : f32[2]",
        "  ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^",
        "  free %a",
        "  %c.s = alloc_storage 8",
        "  ...",
    ]


def test_an_op_that_only_one_has() -> None:
    other = ADDS.replace("  copy %c, %b\n", "")
    result = compare(subject(ADDS, tensor([1.0, 2.0])), subject(other, tensor([1.0, 2.0])))
    lines = list(comparison_lines(result))
    assert lines[1].startswith("%d: 2 of 2 elements")
    assert "only the first computed %c, by op 5" in lines


def test_ops_in_another_order() -> None:
    one = """
func @main(%x: f32[2]) {
  %a = call list::add(%x, %x) : f32[2]
  %b = call list::neg(%x) : f32[2]
  %c = call list::log(%x) : f32[2]
  return %a, %b, %c
}
"""
    lines = one.splitlines(keepends=True)
    other = "".join([*lines[:2], lines[4], lines[3], lines[2], *lines[5:]])
    x = tensor([1.0, 2.0])
    assert compare(subject(one, x), subject(other, x)).matched == 3


def test_a_run_that_fails() -> None:
    failing = ADDS.replace("copy %c, %b", "%f = call list::fail(%b) : f32[2]")
    result = compare(subject(ADDS, tensor([1.0, 2.0])), subject(failing, tensor([1.0, 2.0])))
    assert (result.failed, result.matched) == (2, 2)
    assert isinstance(result.failure, ZeroDivisionError)
    assert next(iter(comparison_lines(result))).startswith("the second run failed after 2 equal values:")


def test_trips_are_told_apart() -> None:
    other = LOOP.replace("%s = call list::add(%b, %l)", "%s = call list::add(%b, %b)")
    result = compare(subject(LOOP, tensor([-1.0, -2.0])), subject(other, tensor([-1.0, -2.0])))
    assert result.mismatch is not None
    assert result.mismatch.first.key == ("step", "%s", 0)


DRAWS = """
func @main(%x: f32[2]) {
  %a = call list::draw(%x) : f32[2]
  %b = call list::neg(%a) : f32[2]
  return %b
}
"""


def test_random_numbers_are_drawn_once() -> None:
    one = subject(DRAWS, tensor([1.0, 2.0]))
    assert compare(one, subject(DRAWS, tensor([1.0, 2.0]), draws=one.draws)).agree
    assert compare(one, one_more := subject(DRAWS, tensor([1.0, 2.0]), draws=one.draws)).agree
    assert len(one_more.draws) == 1
    assert not compare(one, subject(DRAWS, tensor([1.0, 2.0]))).agree


def test_constants() -> None:
    one = artifact(ADDS)
    changed = replace(one, constants={"state": TensorData(ir.DType.F32, memoryview(bytes(7) + b"\1"))})
    assert compare_constants(one, changed) == ("constant %state has other contents",)
    assert compare_constants(one, one) == ()


# --- tolerances


def content(dtype: ir.DType, code: str, *numbers: complex) -> Content:
    data = memoryview(struct.pack(f"<{len(numbers)}{code}", *numbers))
    sizes = (len(numbers),)
    return Content(TensorView(dtype=dtype, sizes=sizes, strides=(1,), device="cpu", data=data))


@pytest.mark.parametrize(
    ("dtype", "code", "a", "b", "same"),
    [
        (ir.DType.F32, "f", 1.0, 1.00005, True),
        (ir.DType.F32, "f", 1.0, 1.0003, False),
        (ir.DType.F64, "d", 1.0, 1.00005, False),
        (ir.DType.F16, "e", 1.0, 1.005, True),
        (ir.DType.F32, "f", math.nan, math.nan, True),
        (ir.DType.F32, "f", math.nan, 1.0, False),
        (ir.DType.F32, "f", 1.0, math.nan, False),
        (ir.DType.F32, "f", math.inf, math.inf, True),
        (ir.DType.F32, "f", math.inf, -math.inf, False),
        (ir.DType.F32, "f", 1e30, math.inf, False),
        (ir.DType.F32, "f", 0.0, -0.0, True),
        (ir.DType.I64, "q", 10**12, 10**12 + 1, False),
        (ir.DType.BOOL, "?", True, False, False),
    ],
)
def test_tolerances(dtype: ir.DType, code: str, a: float, b: float, same: bool) -> None:
    result = compare_contents(content(dtype, code, 0, a), content(dtype, code, 0, b))
    assert (result is None) is same
    if result is not None:
        assert (result.count, result.total, result.index) == (1, 2, (1,))


def test_a_given_tolerance() -> None:
    loose = Tolerance(0.0, 0.5)
    assert compare_contents(content(ir.DType.F32, "f", 1.0), content(ir.DType.F32, "f", 1.4), loose) is None
    assert compare_contents(content(ir.DType.I64, "q", 1), content(ir.DType.I64, "q", 2), loose) is not None
    assert compare_contents(Content(1.0), Content(1.4), loose) is None


def test_other_kinds() -> None:
    result = compare_contents(content(ir.DType.F32, "f", 1.0), Content(1.0))
    assert result is not None
    assert result.text == "f32[1] against float"
    assert compare_contents(Content(3), Content(3)) is None
    assert compare_contents(Content(3), Content(4)) is not None


# --- other engines, through programs that return their intermediate values


def test_taps_keep_the_program_valid() -> None:
    program = artifact(LOOP)
    taps = [tap for window in tap_windows(program.program, 2**30, {}) for tap in window]
    assert [(t.position, t.value.name) for t in taps] == [(0, "n"), (1, "r"), (2, "y")]
    visible = tapped(program, taps)
    verify(visible)
    results = Interpreter(visible, ListMachine(), OPTIONS).boxed([tensor([-1.0, -2.0])])
    assert [r.tolist() for r in results][1] == [1.0, 2.0]
    assert len(results) == 4


def test_windows_of_taps() -> None:
    program = artifact(ADDS).program
    sizes = [len(window) for window in tap_windows(program, 16, {})]
    assert sizes == [2, 2]
    assert (
        sum(
            isinstance(op, ir.Copy)
            for op in tapped(artifact(ADDS), next(tap_windows(program, 16, {}))).program.main.body
        )
        == 3
    )


@pytest.mark.parametrize("tap_bytes", [8, 2**30])
def test_an_engine_that_is_wrong(tap_bytes: int) -> None:
    x = tensor([1.0, 2.0])
    emitter = Wrong()
    second = engine_samples(artifact(ADDS), emitter, ListMachine(), InputChoice(values=[x]), tap_bytes)
    result = compare_runs(samples(subject(ADDS, x)), second)
    assert result.mismatch is not None
    assert result.mismatch.first.name == "%b"
    # the first difference ends the comparison
    assert emitter.compiled == (2 if tap_bytes == 8 else 1)
