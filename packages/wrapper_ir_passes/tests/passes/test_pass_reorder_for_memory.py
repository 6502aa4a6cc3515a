"""`reorder-for-memory`: text in, text out; functions that keep their order; random programs.

Random programs stay valid, behave the same, and have no higher peak.
"""

from __future__ import annotations

import random

import pytest

from wrapper_ir import parse_program, print_program
from wrapper_ir_passes import run_pipeline
from wrapper_ir_passes.analysis.stats import program_stats
from wrapper_ir_passes.cleanup.derive_frees import derive_frees
from wrapper_ir_passes.memory.reorder_for_memory import ReorderForMemory
from wrapper_ir_tools.testing import random_program

HEAD = """wir 0.5
target cpu

symbol s0 : int backed [2, 64] hint 8
symbol u0 : float unbacked

mutable const %state : f32[1]

extern "aten::rand(SymInt[] size) -> Tensor" tags(random)
extern "list::neg(Tensor x) -> Tensor"
extern "list::act(Tensor x) -> ()" tags(effectful)

kernel cpp @wide entry "k" (read f32* src, write f32* dst) {{{

}}}

kernel cpp @sum entry "k" (read f32* src, write f32* dst) {{{

}}}

kernel cpp @over entry "k" (read f32* src may_alias(dst), write f32* dst) {{{

}}}

"""

TWO = """
  %a = alloc f32[64]
  launch @wide(%x, %a) extents(4, 256)
  %b = alloc f32[64]
  launch @wide(%x, %b) extents(4, 256)
  {between}
  %p = alloc f32[1]
  launch @sum(%a, %p) extents(256, 4)
  %q = alloc f32[1]
  launch @sum(%b, %q) extents(256, 4)
  return %p, %q
"""
"""Two large storages, each summed up soon after.

One at a time suffices, except for the ops `between`.
"""


def _reordered(body: str, params: str = "%x: f32[1]") -> tuple[str, int, int]:
    """Returns the body of main after the pass, which is verified and compared, with its bytes before and
    after.
    """
    before = derive_frees(parse_program(f"{HEAD}func @main({params}) {{{body}}}\n"))
    after = run_pipeline(before, (ReorderForMemory(),))
    text = print_program(after)
    main = text[text.index("func @main") :].split("{\n", 1)[1].rsplit("}", 1)[0]
    old, new = program_stats(before).memory, program_stats(after).memory
    assert new.bound <= old.bound
    assert new.peak <= old.peak
    return main, old.peak, new.peak


def test_one_after_the_other() -> None:
    text, before, after = _reordered(TWO.format(between=""))
    assert (
        text
        == """\
  %a = alloc f32[64]
  launch @wide(%x, %a) extents(4, 256)
  %p = alloc f32[1]
  launch @sum(%a, %p) extents(256, 4)
  free %a.s
  %b = alloc f32[64]
  launch @wide(%x, %b) extents(4, 256)
  drop %x
  %q = alloc f32[1]
  launch @sum(%b, %q) extents(256, 4)
  free %b.s
  return %p, %q
"""
    )
    assert (before, after) == (516, 264)


@pytest.mark.parametrize(
    ("what", "is_lower"),
    [
        ("# a comment goes with the op after it", True),
        ("%r = call aten::rand([4]) : f32[4]", True),
        ("launch @sum(%a, %state) extents(256, 4)", True),
        ("launch @sum(%a, %x) extents(256, 4)", True),  # what reads %x next comes after it
        ("barrier", False),
        ("define u0 = item(%x)", False),
        ('assert_layout %x [1] [1] "a check of one tensor"', True),
        ('assert 1 <= 2 "about symbols"', False),
        ("call list::act(%a)", False),
        ('enter_profile "a"\n  exit_scope', False),
        ('%h = collective list::neg(%x) group("0") : f32[1]\n  %y = wait %h : f32[1]', False),
    ],
)
def test_what_nothing_crosses(what: str, is_lower: bool) -> None:
    _, before, after = _reordered(TWO.format(between=what))
    assert (after < before) is is_lower


def test_writes_keep_their_order() -> None:
    """Each reads the result of its predecessor in an argument."""
    text, before, after = _reordered(
        """
  %a = alloc f32[64]
  launch @wide(%x, %a) extents(4, 256)
  launch @sum(%a, %x) extents(256, 4)
  %b = alloc f32[64]
  launch @wide(%x, %b) extents(4, 256)
  launch @sum(%a, %x) extents(256, 4)
  launch @sum(%b, %x) extents(256, 4)
  return
"""
    )
    assert before == after == 512
    assert text.index("@wide(%x, %b)") < text.index("launch @sum(%b, %x)")


def test_what_is_checked_is_used_after_the_check() -> None:
    """Visible writes stay on the same side of it; other checks keep their order."""
    text, before, after = _reordered(
        """
  %a = alloc f32[64]
  launch @wide(%x, %a) extents(4, 256)
  %b = alloc f32[64]
  launch @wide(%x, %b) extents(4, 256)
  assert_finite %a
  assert_finite %b
  launch @sum(%b, %y) extents(256, 4)
  %p = alloc f32[1]
  launch @sum(%a, %p) extents(256, 4)
  return %p
""",
        "%x: f32[1], %y: f32[1]",
    )
    assert after < before
    assert text.index("assert_finite %a") < text.index("@sum(%a") < text.index("assert_finite %b")
    assert text.index("assert_finite %b") < text.index("@sum(%b, %y)")


def test_draws_keep_their_order() -> None:
    body = """
  %a = call aten::rand([64]) : f32[64]
  %b = call aten::rand([64]) : f32[64]
  %p = alloc f32[1]
  launch @sum(%b, %p) extents(256, 4)
  %q = alloc f32[1]
  launch @sum(%a, %q) extents(256, 4)
  return %p, %q
"""
    text, before, after = _reordered(body)
    assert text.index("%a = ") < text.index("%b = ")
    assert (before, after) == (516, 264)  # %a is summed up before %b is drawn


def test_a_result_that_is_written_in_place_counts_once() -> None:
    """The op that may overwrite %a is its last reader; the bytes in use equal the bound."""
    text, _, _ = _reordered(
        """
  %a = alloc f32[64]
  launch @wide(%x, %a) extents(4, 256)
  %b = alloc f32[64]
  launch @over(%a, %b) extents(256, 256)
  %p = alloc f32[1]
  launch @sum(%a, %p) extents(256, 4)
  return %b, %p
"""
    )
    assert text.index("@sum") < text.index("@over")


def test_plans_and_debug_values_keep_their_order() -> None:
    planned = """
  %pool = alloc_storage 512 pool
  %a.s = slot %pool : 256
  %a = view %a.s : f32[64]
  launch @wide(%x, %a) extents(4, 256)
  %b.s = slot %pool + 256 : 256
  %b = view %b.s : f32[64]
  launch @wide(%x, %b) extents(4, 256)
  %p = alloc f32[1]
  launch @sum(%a, %p) extents(256, 4)
  %q = alloc f32[1]
  launch @sum(%b, %q) extents(256, 4)
  return %p, %q
"""
    text, before, after = _reordered(planned)
    assert before == after
    assert text.index("%b.s = slot") < text.index("@sum(%a")


def test_random_programs() -> None:
    lower = 0
    for seed in range(12):
        program = derive_frees(random_program(random.Random(seed), 40))
        result = run_pipeline(program, (ReorderForMemory(),))
        before, after = program_stats(program).memory, program_stats(result).memory
        assert after.bound <= before.bound
        assert after.live <= before.live
        lower += after.bound < before.bound
    assert lower
