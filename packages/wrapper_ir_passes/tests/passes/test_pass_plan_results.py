"""`plan-memory{results=true}`: one allocation for all results of a program, if its caller permits."""

from __future__ import annotations

import random

import pytest

from wrapper_ir import parse_program, print_program
from wrapper_ir_passes import run_pipeline
from wrapper_ir_passes.analysis.stats import program_stats
from wrapper_ir_passes.memory.plan_memory import PlanMemory
from wrapper_ir_tools.testing import random_program

HEAD = """wir 0.5
target cpu

extern "aten::relu(Tensor self) -> Tensor"

"""
RESULTS = """%x: f32[64], %y: f32[16]) {
  %a = alloc f32[64]
  copy %a, %x
  %b = alloc f32[16]
  copy %b, %y
  %v = view %b : f32[4, 4]
  return %a, %v, %b
}
"""
WORST = "  %t = call aten::relu(%x) : f32[64]\n  copy %a, %t\n  free %t\n"


def _planned(body: str, spec: str) -> str:
    return print_program(run_pipeline(parse_program(f"{HEAD}func @main({body}"), spec))


def test_results_share_an_allocation_where_the_caller_allows() -> None:
    text = _planned(RESULTS, "plan-memory{results=true}")
    assert text.count("alloc") == 1
    assert "%pool0 = alloc_storage 320\n" in text
    assert "%b = view %pool0 + 256 : f32[16]" in text
    assert _planned(RESULTS, "plan-memory").count("alloc") == 2


def test_results_lie_apart_where_one_would_wait_at_the_worst_moment() -> None:
    body = RESULTS.replace("  %b = alloc", f"{WORST}  %b = alloc")
    assert _planned(body, "plan-memory{results=true}").count("alloc") == 2


def test_results_lie_apart_where_bytes_would_be_lost_for_alignment() -> None:
    assert _planned(RESULTS.replace("f32[64]", "f32[36]"), "plan-memory{results=true}").count("alloc") == 2


def test_a_result_that_is_reused_lies_apart() -> None:
    """Reuse ends all tensors of a storage."""
    body = RESULTS.replace("%v = view %b", "%v = reuse %b").replace("return %a, %v, %b", "return %a, %v")
    assert _planned(body, "plan-memory{results=true}").count("alloc") == 2


@pytest.mark.parametrize("seed", range(20))
def test_random_programs(seed: int) -> None:
    """They are valid, behave the same, and hold no more memory than the slack allows."""
    program = random_program(random.Random(seed), size=30)
    planned = run_pipeline(program, (PlanMemory(results=True),))
    assert program_stats(planned).memory.peak <= program_stats(program).memory.peak * 1.01
