"""`plan-memory{donated=true}`: storages in donated arguments, several in one."""

from __future__ import annotations

import random

import pytest

from wrapper_ir import check, ir, parse_program, print_program
from wrapper_ir_passes import run_pipeline
from wrapper_ir_passes.analysis.stats import program_stats
from wrapper_ir_passes.cleanup.derive_frees import derive_frees
from wrapper_ir_passes.memory.plan_memory import PlanMemory
from wrapper_ir_passes.translation import compare
from wrapper_ir_tools.testing import random_program

HEAD = """wir 0.5
target cpu

extern "aten::add.out(Tensor self, Tensor other, *, Scalar alpha=1, Tensor(a!) out) -> Tensor(a!)"

kernel cpp @k entry "k" (read f32* src, write f32* dst, i64 n, i64 m) {{{

}}}

kernel cpp @aligned entry "k" (read f32* src divisible(16), write f32* dst, i64 n, i64 m) {{{

}}}

"""
THREE = """\
  %a = alloc f32[64]
  launch @k(%x, %a, 64, 64) extents(256, 256)
  %b = alloc f32[8, 8]
  launch @k(%a, %b, 64, 64) extents(256, 256)
  %v = view %b : f32[64]
  call aten::add.out(%a, %v, out=%x)
  %c = alloc f32[32]
  launch @k(%x, %c, 32, 32) extents(128, 128)
  launch @k(%c, %x, 32, 32) extents(128, 128)"""
DONATED = "plan-memory{donated=true}"


def _program(
    argument: str, then: str, *, first: str = "  launch @k(%g, %x, 128, 64) extents(512, 256)", last: str = ""
) -> ir.Program:
    """`%g` is read first; what the rest finds ends up in `%x`."""
    body = f"%g: {argument}, %x: f32[64]) {{\n{first}\n{then}\n  return{last}"
    return parse_program(f"{HEAD}func @main({body}\n}}\n")


def _allocations(program: ir.Program) -> int:
    return sum(isinstance(op, ir.AllocStorage) for op in program.ops)


def test_several_in_one() -> None:
    """Two side by side, and a third in place of the first; only with the caller's permission."""
    program = _program("owned f32[128]", THREE)
    assert _allocations(run_pipeline(program, "plan-memory")) == 1
    planned = run_pipeline(program, DONATED)
    assert _allocations(planned) == 0
    text = print_program(planned)
    for line in ("%a = view %g : f32[64]", "%b = view %g + 256 : f32[8, 8]", "%c = view %g : f32[32]"):
        assert line in text
    assert program_stats(planned).memory.peak <= program_stats(derive_frees(program)).memory.peak


READ = "  launch @k(%g, %x, 128, 64) extents(512, 256)"
APART = {
    "an argument that is the caller's": ("f32[128]", THREE, READ, ""),
    "an argument that is returned": ("owned f32[128]", THREE, READ, " %g"),
    "an argument that is read later": ("owned f32[128]", THREE, READ, "READ"),
    "an argument with bytes between its own": ("owned f32[2, 64]{96, 1}", THREE, READ.replace("512", "640").replace("128", "160"), ""),
    "an argument that is too small": ("owned f32[16]", THREE, READ.replace("512", "64").replace("128", "16"), ""),
    "an address that a kernel relies on": (
        "owned f32[128]",
        "  %a = alloc f32[64]\n  launch @k(%x, %a, 64, 64) extents(256, 256)\n  launch @aligned(%a, %x, "
        "64, 64) extents(256, 256)",
        READ,
        "",
    ),
    "an argument whose name has ended": (
        "owned f32[128]",
        THREE,
        "  %u = reuse %g : f32[128]\n" + READ.replace("%g", "%u"),
        "",
    ),
    "a storage that begins before": (
        "owned f32[128]",
        "  launch @k(%g, %a, 64, 64) extents(256, 256)\n  launch @k(%a, %x, 64, 64) extents(256, 256)",
        "  %a = alloc f32[64]",
        "",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", APART)
def test_what_keeps_its_storage(case: str) -> None:
    argument, then, first, last = APART[case]
    if last == "READ":
        then, last = f"{then}\n{READ}", ""
    program = _program(argument, then, first=first, last=last)
    assert check(derive_frees(program)) == ()
    assert run_pipeline(program, DONATED) == run_pipeline(program, "plan-memory")


def test_nothing_is_kept_that_makes_the_peak_higher() -> None:
    """A small storage would keep a large argument until after the peak."""
    then = "  %s = alloc f32[4]\n  launch @k(%x, %s, 4, 4) extents(16, 16)\n  %big = alloc f32[256]\n"
    then += "  launch @k(%x, %big, 64, 256) extents(256, 1024)\n  launch @k(%s, %big, 4, 4) extents(16, 16)\n  launch @k(%big, %x, 64, 64) extents(256, 256)"
    program = _program("owned f32[128]", then)
    result = run_pipeline(program, DONATED)
    assert "view %g" not in print_program(result)
    assert program_stats(result).memory.peak <= program_stats(derive_frees(program)).memory.peak


@pytest.mark.parametrize("seed", range(12))
def test_random_programs(seed: int) -> None:
    program = random_program(random.Random(seed), size=30)
    planned = PlanMemory(donated=True).run(program)
    assert check(planned) == ()
    assert compare(program, planned) is None
    assert _allocations(planned) <= _allocations(PlanMemory().run(program))
