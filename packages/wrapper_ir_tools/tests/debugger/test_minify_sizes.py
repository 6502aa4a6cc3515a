"""Constant sizes shrink unless a kernel has them in its source."""

from __future__ import annotations

from dataclasses import replace

import pytest
from packages.wrapper_ir_runtime.tests.interp.interp_case import OPTIONS, artifact
from packages.wrapper_ir_runtime.tests.interp.list_machine import ListMachine, Tensor, tensor
from packages.wrapper_ir_tools.tests.debugger.debug_case import subject

from wrapper_ir import ir
from wrapper_ir.artifact import Artifact
from wrapper_ir.text import print_function
from wrapper_ir_tools.debugger.hunt import HuntOptions
from wrapper_ir_tools.debugger.minify import finite_check, minify, program_check
from wrapper_ir_tools.debugger.minify.kernel_sizes import kernels_with_sizes
from wrapper_ir_tools.debugger.minify.sizes import Resizing, number_sizes, smaller_sizes

NAN = finite_check(ListMachine(), HuntOptions(nan_only=True), OPTIONS)


def row(count: int, bad: int = 0) -> Tensor:
    """Positive numbers and a negative one."""
    return tensor([-1.0 if i == bad else 1.0 for i in range(count)])


def printed(result: Artifact) -> str:
    return print_function(result.program.main, result.program)


OPERATORS = """
func @main(%x: f32[64]) {
  %n = alloc f32[64]
  call list::add.out(%x, %x, out=%n)
  %y = call list::log(%n) : f32[64]
  free %n.s
  return %y
}
"""


def test_operators_alone() -> None:
    result = minify(subject(OPERATORS, row(64)), NAN)
    assert (
        printed(result.artifact)
        == """\
func @main() {
  %n.s = alloc_storage 8
  %n.s.bytes = view %n.s : u8[8]
  copy %n.s.bytes, %n.s.content
  %n = view %n.s : f32[2]
  %y = call list::log(%n) : f32[2]
  free %n.s
  return %y
}"""
    )
    assert result.notes == ()


@pytest.mark.parametrize(("bad", "size"), [(0, 2), (2, 3), (7, 8), (12, 16), (63, 64)])
def test_the_failure_has_to_stay(bad: int, size: int) -> None:
    """Keeps the smallest size that includes the failing element."""
    result = minify(subject(OPERATORS, row(64, bad)), NAN)
    assert f"%y = call list::log(%n) : f32[{size}]" in printed(result.artifact)


def kernel(name: str, arguments: str, extents: str = "") -> str:
    return f"""
func @main(%x: f32[64]) {{
  %n = alloc f32[64]
  launch @{name}({arguments}){extents}
  %y = call list::log(%n) : f32[64]
  return %y, %n
}}
"""


def resized(program: Artifact, old: int, new: int) -> tuple[list[str], list[str]]:
    """The candidates as text, and the notes about kernels."""
    resizing = Resizing()
    result = [printed(candidate) for (candidate,) in resizing.candidates((program,), old, new)]
    return result, resizing.notes((program,))


def test_a_kernel_that_is_given_the_size() -> None:
    program = artifact(kernel("double", "%x, %n, 64", " extents(256, 256)"))
    (text, *_), notes = resized(program, 64, 2)
    assert "launch @double(%x, %n, 2) extents(8, 8)" in text
    assert notes == []


@pytest.mark.parametrize(
    ("old", "text"),
    [("double\n}}}", kernel("double", "%x, %n, 64", " extents(256, 256)")), ("", kernel("count_grid", "%n"))],
    ids=["in its source", "not given"],
)
def test_invalid_for_a_kernel(old: str, text: str) -> None:
    program = artifact(text)
    if old:
        changed = tuple(ir.with_source(k, "for i < 256L:") for k in program.program.kernels)
        program = replace(program, program=replace(program.program, kernels=changed))
    name = "double" if old else "count_grid"
    assert kernels_with_sizes(program.program, {64: 2, 256: 8}) == [name]
    result, notes = resized(program, 64, 2)
    assert result == []
    assert notes == [f"sizes that are numbers stay where @{name} may have them in the source"]


GRID = """
func @main(%x: f32[64]) {
  %n = call list::neg(%x) : f32[64]
  launch @count_grid(%n) grid(3)
  return %n
}
"""


def test_the_kernel_is_named() -> None:
    one, two = (subject(text, row(64)) for text in (GRID, GRID.replace("(3)", "(4)")))
    result = minify(one, program_check(ListMachine(), OPTIONS), two)
    assert "launch @count_grid(%n) grid(3)" in printed(result.artifact)
    assert "%n = alloc f32[64]" in printed(result.artifact)
    assert result.notes == ("sizes that are numbers stay where @count_grid may have them in the source",)


def test_two_programs_get_the_same_sizes() -> None:
    changed = OPERATORS.replace("list::log", "list::neg")
    result = minify(
        subject(OPERATORS, row(64)), program_check(ListMachine(), OPTIONS), subject(changed, row(64))
    )
    assert result.second is not None
    assert "%y = call list::log(%n) : f32[2]" in printed(result.artifact)
    assert "%y = call list::neg(%n) : f32[2]" in printed(result.second)


LAYOUTS = """
func @main(%x: f32[8, 16], %t: f32[8, 16]{1, 8}) {
  %n = alloc f32[8, 16]
  call list::add.out(%x, %t, out=%n)
  %flat = view %n : f32[128]
  %half = view %n + 256 : f32[4, 16]
  %y = call list::neg(%flat) : f32[128]
  %z = call list::neg(%half) : f32[4, 16]
  return %y, %z
}
"""


def test_numbers_that_follow_from_a_size() -> None:
    """Changes strides, counts and bytes too, also those of permuted layouts."""
    result, _ = resized(artifact(LAYOUTS), 16, 2)
    assert (
        result[0]
        == """\
func @main(%x: f32[8, 2], %t: f32[8, 2]{1, 8}) {
  %n = alloc f32[8, 2]
  call list::add.out(%x, %t, out=%n)
  drop %x
  drop %t
  %flat = view %n : f32[16]
  %half = view %n + 32 : f32[4, 2]
  %y = call list::neg(%flat) : f32[16]
  %z = call list::neg(%half) : f32[4, 2]
  free %n.s
  return %y, %z
}"""
    )


def test_dimensions_that_become_one() -> None:
    text = """
func @main(%x: f32[4, 4, 3]) {
  %y = view %x : f32[16, 3]
  %z = call list::neg(%y) : f32[16, 3]
  return %z
}
"""
    result, _ = resized(artifact(text), 4, 2)
    assert "%y = view %x : f32[4, 3]" in result[0]


def test_one_number_that_would_become_two() -> None:
    """64 bytes are 4 * 4 elements in one tensor, and 16 rows of one in the other."""
    text = """
func @main(%x: f32[4, 4], %y: f32[16, 4]{1, 16}) {
  %z = call list::neg(%y) : f32[16, 4]
  return %z
}
"""
    assert resized(artifact(text), 4, 2)[0] == []


def test_sizes_that_are_tried() -> None:
    assert number_sizes([artifact(LAYOUTS)]) == [128, 16, 8, 4]
    assert smaller_sizes(64) == [2, 3, 8, 16, 32]
    assert smaller_sizes(3) == [2]
