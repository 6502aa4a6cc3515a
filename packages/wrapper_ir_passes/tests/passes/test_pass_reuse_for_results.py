"""`reuse-for-results`: text in, text out; results that keep separate storages; random programs stay valid."""

from __future__ import annotations

import random

import pytest

from wrapper_ir import check, ir, parse_program, print_program
from wrapper_ir_passes import run_pipeline
from wrapper_ir_passes.analysis.stats import program_stats
from wrapper_ir_passes.cleanup.derive_frees import derive_frees
from wrapper_ir_passes.memory.reuse_for_results import ReuseForResults
from wrapper_ir_passes.translation import compare
from wrapper_ir_tools.testing import random_program

HEAD = """wir 0.5
target cpu

symbol s0 : int backed [2, 64] hint 8

extern "aten::relu(Tensor self) -> Tensor"

kernel cpp @k entry "k" (read f32* src, write f32* dst) {{{

}}}

kernel cpp @fill entry "k" (write f32* dst) {{{

}}}

kernel cpp @count entry "k" (write i32* dst) {{{

}}}

"""


def _program(body: str) -> ir.Program:
    return parse_program(f"{HEAD}func @main({body}\n}}\n")


def _reused(body: str) -> str:
    """Returns the body of main after the pass; `run_pipeline` verifies the program and compares it with the
    original."""
    text = print_program(run_pipeline(_program(body), (ReuseForResults(),)))
    return text[text.index("func @main") :].split("{\n", 1)[1].rsplit("}", 1)[0]


CHAIN = """%x: f32[64]) {
  %out = alloc i32[8, 8]
  %a = alloc f32[64]
  copy %a, %x
  %b = alloc f32[64]
  copy %b, %a
  copy %out, %b
  return %out"""


def test_a_result_lies_in_what_has_ended() -> None:
    """The storage has another type and was allocated earlier; the tensor is created after the end of its
    names."""
    assert (
        _reused(CHAIN.replace("copy %out, %b", "copy %x, %b\n  launch @count(%out) extents(256)"))
        == """\
  %a = alloc f32[64]
  copy %a, %x
  %b = alloc f32[64]
  copy %b, %a
  free %a.s
  copy %x, %b
  drop %x
  %out = reuse %b : i32[8, 8]
  launch @count(%out) extents(256)
  return %out
"""
    )


def test_what_ended_before() -> None:
    """`b` is read while the result is written, `a` is not."""
    text = _reused(CHAIN.replace("i32[8, 8]", "f32[64]"))
    assert "  %out = reuse %a : f32[64]\n  copy %out, %b\n" in text
    assert text.count("alloc") == 2


def test_what_an_operator_made() -> None:
    """The result's tensor takes over the name that ends."""
    body = """%x: f32[64], %y: f32[8, 8]) {
  %out = alloc i32[8, 8]
  %a = call aten::relu(%x) : f32[64]
  %v = view %a : f32[8, 8]
  copy %y, %v
  launch @count(%out) extents(256)
  return %out"""
    text = _reused(body)
    assert "%out = reuse %v : i32[8, 8]\n  launch @count(%out)" in text
    assert "alloc" not in text
    assert "alloc" in _reused(body.replace("return %out", "return %out, %a"))


def test_symbolic_sizes() -> None:
    body = CHAIN.replace("i32[8, 8]", "f32[s0]").replace("f32[64]", "f32[s0]")
    text = _reused(body.replace("{\n", "{\n  define s0 = size(%x, 0)\n", 1))
    assert "%out = reuse %a : f32[s0]" in text


KEPT = {
    "more bytes": CHAIN.replace("i32[8, 8]", "f32[8, 16]").replace("copy %out, %b", "launch @fill(%out) extents(512)"),
    "fewer bytes, of which the caller would hold more": CHAIN.replace("i32[8, 8]", "f32[8]").replace(
        "copy %out, %b", "launch @fill(%out) extents(32)"
    ),
    "a name that is used later": CHAIN.replace("i32[8, 8]", "f32[64]").replace(
        "copy %out, %b", "%v = view %a + 4 : f32[8]\n  copy %out, %b\n  copy %v, %v"
    ),
    "a result that holds something early": CHAIN.replace("i32[8, 8]", "f32[64]").replace(
        "  %a = alloc", "  copy %out, %x\n  %a = alloc"
    ),
    "a result with a window at its end": CHAIN.replace("%out = alloc i32[8, 8]", "%out.s = alloc_storage 256\n  "
        "%out = view %out.s + 128 : f32[32]").replace("copy %out, %b", "launch @fill(%out) extents(128)"),
    "what is freed by the caller": "%a: f32[64]) {\n  %out = alloc f32[64]\n  copy %out, %a\n  return %out",
    "slots of a pool": "%x: f32[64]) {\n  %pool = alloc_storage 256 pool\n  %a.s = slot %pool : 256\n  %a = view %a.s : f32[64]\n"
    "  copy %a, %x\n  copy %x, %a\n  %out = alloc f32[64]\n  copy %out, %x\n  return %out",
}  # fmt: skip


@pytest.mark.parametrize("case", KEPT)
def test_what_keeps_its_storage(case: str) -> None:
    program = _program(KEPT[case])
    assert check(derive_frees(program)) == ()
    assert _allocated(ReuseForResults().run(program)) == _allocated(program) > 0


def test_nothing_waits_while_more_is_held_than_ever() -> None:
    """Between `a` and the result, the bytes in use are at their peak."""
    body = """%x: f32[64]) {
  %a = alloc f32[64]
  copy %a, %x
  copy %x, %a
  %big = alloc f32[SIZE]
  launch @fill(%big) extents(EXTENT)
  %sum = alloc f32[1]
  launch @k(%big, %sum) extents(4, 4)
  %out = alloc f32[64]
  copy %out, %x
  return %out"""
    for size, allocated in ((64, 3), (512, 4)):
        program = _program(body.replace("SIZE", str(size)).replace("EXTENT", str(4 * size)))
        result = run_pipeline(program, (ReuseForResults(),))
        before, after = (program_stats(p).memory.peak for p in (derive_frees(program), result))
        assert _allocated(result) == allocated
        assert after <= before


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100))
def test_random_programs(seed: int) -> None:
    program = random_program(random.Random(seed), size=30)
    reused = ReuseForResults().run(program)
    assert check(reused) == ()
    assert compare(program, reused) is None
    assert program_stats(reused).memory.peak <= program_stats(derive_frees(program)).memory.peak


def _allocated(program: ir.Program) -> int:
    return sum(isinstance(op, ir.AllocStorage) for op in program.ops)


def test_a_result_lies_in_a_donated_argument_where_the_caller_allows() -> None:
    body = (
        "%x: f32[64], %a: owned f32[64]) {\n  copy %x, %a\n  %out = alloc f32[64]\n  copy %out, %x\n  "
        "return %out"
    )
    program = _program(body)
    assert run_pipeline(program, "reuse-for-results") == derive_frees(program)
    text = print_program(run_pipeline(program, "reuse-for-results{donated=true}"))
    assert "alloc" not in text
    assert "%out = reuse %a : f32[64]" in text
