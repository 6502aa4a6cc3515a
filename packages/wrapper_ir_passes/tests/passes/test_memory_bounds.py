"""The two bounds of memory: of this order, and of any plan for dead or overwritten content."""

from __future__ import annotations

import random

import pytest

from wrapper_ir import parse_program
from wrapper_ir_passes.analysis.stats import program_stats
from wrapper_ir_passes.cleanup.derive_frees import derive_frees
from wrapper_ir_tools.testing import random_program

HEAD = """wir 0.5
target cpu

symbol s0 : int backed [2, 64] hint 8
extern "aten::relu(Tensor self) -> Tensor"
kernel cpp @k entry "k" (read f32* src, write f32* dst) {{{
}}}
kernel cpp @in_place entry "k" (read f32* src, write f32* dst may_alias(src)) {{{
}}}
kernel cpp @two entry "k" (read f32* one, read f32* two, write f32* dst may_alias(one, two)) {{{
}}}
kernel cpp @part entry "k" (readwrite f32* all, read f32* src) {{{
}}}

"""


def _bounds(body: str, params: str = "%x: f32[64], %y: f32[64]") -> tuple[int, int]:
    """(live, bound) of a program in units of one buffer of 256 bytes."""
    lines = "\n".join(f"  {line.strip()}" for line in body.strip().splitlines())
    program = derive_frees(parse_program(f"{HEAD}func @main({params}) {{\n{lines}\n}}\n"))
    memory = program_stats(program).memory
    return memory.live // 256, memory.bound // 256


TWO_USES = """
    %a = alloc f32[64]
    launch @{first}(%x, %a)
    launch @k(%a, %y)
    %b = alloc f32[64]
    launch @k(%x, %b)
    launch @k(%b, %y)
    launch @{again}
    launch @k(%a, %y)
    return
"""


def test_content_that_is_dead_between_two_uses() -> None:
    assert _bounds(TWO_USES.format(first="k", again="k(%x, %a)")) == (2, 1)


def test_content_that_a_part_is_kept_of() -> None:
    """A kernel that writes some of the elements keeps the others."""
    assert _bounds(TWO_USES.format(first="k", again="part(%a, %x)")) == (2, 2)


def _by_halves(again: str) -> str:
    halves = "%h = view %a : f32[32]\n    %g = view %a + 128 : f32[32]\n    %b = alloc"
    return TWO_USES.format(first="k", again=again).replace("%b = alloc", halves)


def test_content_of_which_a_half_is_kept() -> None:
    assert _bounds(_by_halves("k(%x, %h) extents(128, 128)")) == (2, 2)


def test_content_whose_halves_are_both_written_again() -> None:
    again = "k(%x, %h) extents(128, 128)\n    launch @k(%x, %g) extents(128, 128)"
    assert _bounds(_by_halves(again)) == (2, 1)


CHAIN = """
    %a = alloc f32[64]
    launch @k(%x, %a)
    %b = alloc f32[64]
    launch @{kernel}({args}, %b)
    {later}
    launch @k(%b, %y)
    return
"""


@pytest.mark.parametrize(
    ("kernel", "args", "later", "bound"),
    [
        ("in_place", "%a", "", 1),
        ("k", "%a", "", 2),  # the kernel does not allow it
        ("in_place", "%a", "launch @k(%a, %y)", 2),  # read later
        ("in_place", "%x", "launch @k(%a, %y)", 2),  # an input is not the program's to write over
        ("two", "%a, %x", "", 1),
        ("two", "%a, %a", "", 1),
    ],
)
def test_launches_in_place(kernel: str, args: str, later: str, bound: int) -> None:
    assert _bounds(CHAIN.format(kernel=kernel, args=args, later=later)) == (2, bound)


def test_one_result_takes_one_argument_over() -> None:
    """Two arguments end, one buffer begins: two are needed at once."""
    body = """
        %a = alloc f32[64]
        launch @k(%x, %a)
        %b = alloc f32[64]
        launch @k(%x, %b)
        %c = alloc f32[64]
        launch @two(%a, %b, %c)
        return %c
    """
    assert _bounds(body) == (3, 2)


@pytest.mark.parametrize("seed", range(60))
def test_random_programs(seed: int) -> None:
    memory = program_stats(random_program(random.Random(seed), size=30)).memory
    assert 0 <= memory.bound <= memory.live <= memory.peak <= memory.allocated
