"""Liveness, memory and statistics of small programs, by hand."""

from __future__ import annotations

import random

import pytest

from wrapper_ir import ir, parse_program
from wrapper_ir.analysis.liveness import analyse_liveness
from wrapper_ir.analysis.memo import Analyses
from wrapper_ir_passes.analysis.stats import program_stats
from wrapper_ir_passes.cleanup.derive_frees import derive_frees
from wrapper_ir_tools.testing import RandomOptions, random_program

HEAD = """wir 0.5
target cpu

symbol s0 : int backed [2, 1024] hint 8
symbol s1 : int backed [2, 1024]
const %w : f32[64]
extern "aten::relu(Tensor self) -> Tensor"
extern "lib::two(Tensor self) -> (Tensor, Tensor)"
kernel cpp @k entry "k" (read f32* src, write f32* dst) {{{
}}}

"""


def _program(text: str) -> ir.Program:
    return derive_frees(parse_program(HEAD + text))


CHAIN = """func @main(%x: f32[64]) {
  %a = alloc f32[64]
  launch @k(%x, %a)
  %b = alloc f32[64]
  launch @k(%a, %b)
  %c = alloc f32[64]
  launch @k(%b, %c)
  return %c
}
"""


def test_last_uses() -> None:
    program = _program(CHAIN)
    live = analyse_liveness(program.main, Analyses(program))
    ends = {v.name: type(program.main.body[p]).__name__ + str(p) for v, p in live.storages.items()}
    assert ends == {"a.s": "Launch6", "b.s": "Launch10"}
    assert {v.name for v in live.names} == {"x"}


def test_a_chain_holds_two_buffers_at_once() -> None:
    memory = program_stats(_program(CHAIN)).memory
    assert (memory.allocated, memory.peak, memory.live) == (3 * 256, 2 * 256, 2 * 256)


def test_late_frees_raise_the_peak_and_not_the_bound() -> None:
    late = CHAIN.replace("  return", "  free %a.s\n  free %b.s\n  return")
    memory = program_stats(parse_program(HEAD + late)).memory
    assert (memory.peak, memory.live) == (3 * 256, 2 * 256)


def test_slots_of_a_pool_count_on_their_own() -> None:
    text = """func @main(%x: f32[64]) {
  %pool = alloc_storage 1024 pool
  %a.s = slot %pool : 256
  %a = view %a.s : f32[64]
  %b.s = slot %pool + 256 : 256
  %b = view %b.s : f32[64]
  %c = alloc f32[64]
  launch @k(%x, %a)
  launch @k(%a, %b)
  launch @k(%b, %c)
  return %c
}
"""
    memory = program_stats(_program(text)).memory
    assert (memory.allocated, memory.peak, memory.live) == (1280, 1280, 512)


def test_symbolic_sizes_take_hints_then_definitions_then_lower_bounds() -> None:
    text = """func @main(%x: f32[s0]) {
  define s0 = size(%x, 0)
  define s1 = s0 * 2
  %a = alloc f32[s1]
  launch @k(%x, %a)
  return %a
}
"""
    program = _program(text)
    assert program_stats(program).memory.allocated == 16 * 4
    assert program_stats(program, {"s0": 10}).memory.allocated == 20 * 4
    assert program_stats(program, {"s1": 3}).memory.allocated == 3 * 4
    assert program_stats(program).assumed == ()
    unhinted = parse_program((HEAD + CHAIN).replace(" hint 8", ""))
    assert program_stats(unhinted).assumed == ("s0", "s1")


def test_a_callee_counts_while_it_runs() -> None:
    text = """func @main(%p: bool[], %x: f32[64]) {
  %r = cond %p then @deep else @flat (%x) : f32[64]
  return %r
}

func @deep(%x: f32[64]) {
  %a = alloc f32[64]
  launch @k(%x, %a)
  %b = alloc f32[64]
  launch @k(%a, %b)
  return %b
}

func @flat(%x: f32[64]) {
  %r = call aten::relu(%x) : f32[64]
  return %r
}
"""
    memory = program_stats(_program(text)).memory
    assert (memory.peak, memory.live) == (512, 512)


@pytest.mark.parametrize(
    "order", ["%a = unpack %t[0]\n %b = unpack %t[1]", "%b = unpack %t[1]\n %a = unpack %t[0]"]
)
def test_elements_of_a_nested_result_count_from_the_call(order: str) -> None:
    """They count even while another one is used: all of them exist, regardless of the order of unpacking."""
    first, second = (f"  {line.strip()} : f32[64]" for line in order.splitlines())
    text = f"""func @main(%x: f32[64]) {{
  %t = call lib::two(%x) : results
{first}
  %c = alloc f32[64]
  launch @k({first.split()[0]}, %c)
{second}
  launch @k({second.split()[0]}, %x)
  return %c
}}
"""
    memory = program_stats(derive_frees(_program(text))).memory
    assert (memory.peak, memory.live, memory.bound) == (768, 768, 768)


def test_rows_for_display() -> None:
    rows = dict(program_stats(_program(CHAIN)).rows())
    assert rows["ops"] == "13"
    assert rows["  Launch"] == "3"
    assert rows["  cpp"] == "1"
    assert rows["constants"] == "1 (256)"
    assert rows["peak bytes held"] == "512"
    assert rows["symbols without hint"] == "s1"


@pytest.mark.parametrize("seed", range(30))
def test_bounds_of_random_programs(seed: int) -> None:
    program = random_program(random.Random(seed), 15, RandomOptions(executable=seed % 2 == 0))
    memory = program_stats(program).memory
    assert 0 <= memory.live <= memory.peak <= memory.allocated
