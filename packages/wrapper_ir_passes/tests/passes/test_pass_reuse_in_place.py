"""`reuse-in-place`: text in, text out; storages that must not be shared; random programs.

Random programs stay valid and behave the same.
"""

from __future__ import annotations

import random

import pytest

from wrapper_ir import check, ir, parse_program, print_program
from wrapper_ir_passes import run_pipeline
from wrapper_ir_passes.analysis.stats import program_stats
from wrapper_ir_passes.cleanup.derive_frees import derive_frees
from wrapper_ir_passes.memory.reuse_in_place import ReuseInPlace
from wrapper_ir_passes.translation import compare
from wrapper_ir_tools.testing import random_program

HEAD = """wir 0.5
target cpu

symbol s0 : int backed [2, 64] hint 8

const %c : f32[64]

extern "aten::relu(Tensor self) -> Tensor"
extern "aten::mul.out(Tensor self, Tensor other, *, Tensor(a!) out) -> Tensor(a!)"
extern "aten::addmm.out(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1, Tensor(a!) out) -> Tensor(a!)"
extern "aten::reshape(Tensor(a) self, SymInt[] shape) -> Tensor(a)" tags(may_alias)

kernel cpp @k entry "k" (read f32* src may_alias(dst), write f32* dst) {{{

}}}

kernel cpp @apart entry "k" (read f32* src, write f32* dst) {{{

}}}

kernel cpp @aligned entry "k" (read f32* src divisible(16), write f32* dst) {{{

}}}

kernel cpp @two entry "k" (read f32* a may_alias(x, y), read f32* b may_alias(y), write f32* x, write f32* y) {{{

}}}

"""


def _reused(body: str) -> str:
    """Returns the body of main after the pass; `run_pipeline` verifies the program and compares it with the
    original."""
    text = print_program(run_pipeline(parse_program(f"{HEAD}func @main({body}\n}}\n"), (ReuseInPlace(),)))
    return text[text.index("func @main") :].split("{\n", 1)[1].rsplit("}", 1)[0]


def test_a_chain_is_one_storage() -> None:
    """The storage is reused by each launch up to the result. The program's argument still belongs to the
    caller.
    """
    body = "%x: f32[64]) {\n"
    for number, source in enumerate(("x", "b0", "b1")):
        body += f"  %b{number} = alloc f32[64]\n  launch @k(%{source}, %b{number}) extents(256, 256)\n"
    assert (
        _reused(f"{body}  return %b2")
        == """\
  %b0 = alloc f32[64]
  launch @k(%x, %b0) extents(256, 256)
  drop %x
  %b1 = view %b0 : f32[64]
  launch @k(%b0, %b1) extents(256, 256)
  %b2 = view %b1 : f32[64]
  launch @k(%b1, %b2) extents(256, 256)
  return %b2
"""
    )


MATMUL = """%x: f32[8, 8], %y: f32[8, 8]) {{
  %a = alloc f32[8, 8]
  call aten::mul.out(%x, %y, out=%a)
  %b = alloc f32[8, 8]{strides}
  call aten::addmm.out({added}, {factor}, %y, out=%b){after}
  return %b"""


def test_a_matmul_that_is_added_up() -> None:
    text = _reused(MATMUL.format(strides="", added="%a", factor="%x", after=""))
    assert (
        text
        == """\
  %a = alloc f32[8, 8]
  call aten::mul.out(%x, %y, out=%a)
  %b = view %a : f32[8, 8]
  call aten::addmm.out(%a, %x, %y, out=%b)
  drop %x
  drop %y
  return %b
"""
    )


@pytest.mark.parametrize(
    ("strides", "added", "factor", "after"),
    [
        ("{1, 8}", "%a", "%x", ""),  # its elements are at other offsets
        ("", "%a", "%a", ""),  # a factor, which is read for all elements
        ("", "%x", "%a", ""),  # the argument is the caller's
        ("", "%a", "%x", "\n  call aten::mul.out(%a, %x, out=%y)"),  # is read later
    ],
)
def test_a_matmul_that_keeps_its_storage(strides: str, added: str, factor: str, after: str) -> None:
    text = _reused(MATMUL.format(strides=strides, added=added, factor=factor, after=after))
    assert text.count(" = alloc ") == 2


def test_each_result_takes_one_argument() -> None:
    body = """%p: f32[64], %q: f32[64]) {
  %a = alloc f32[64]
  launch @apart(%p, %a) extents(256, 256)
  %b = alloc f32[64]
  launch @apart(%q, %b) extents(256, 256)
  %x = alloc f32[64]
  %y = alloc f32[64]
  launch @two(%a, %b, %x, %y) extents(256, 256, 256, 256)
  return %x, %y"""
    text = _reused(body)
    assert "%x = view %a : f32[64]" in text
    assert "%y = view %b : f32[64]" in text
    assert "free" not in text


def test_symbolic_sizes() -> None:
    """Equal for every value; the argument is a view that has taken over its own storage."""
    body = """%x: f32[s0, 4]) {
  define s0 = size(%x, 0)
  %a = alloc f32[s0, 4]
  launch @apart(%x, %a) extents(16*s0, 16*s0)
  %t = reuse %a : f32[4*s0]
  %b = alloc f32[4*s0]
  launch @k(%t, %b) extents(16*s0, 16*s0)
  %u = view %b : f32[s0, 4]
  return %u"""
    text = _reused(body)
    assert "%b = view %t : f32[4*s0]\n" in text
    assert text.count("alloc") == 1


ARGUMENT = "  %a = alloc f32[64]\n  launch @apart(%x, %a) extents(256, 256)\n"
RESULT = "  %b = alloc f32[64]\n"
LAUNCH = "  launch @k(%a, %b) extents(256, 256)\n"
KEPT = {
    "an argument that is read later": f"%x: f32[64]) {{\n{ARGUMENT}{RESULT}{LAUNCH}"
    "  %r = alloc f32[64]\n  launch @apart(%a, %r) extents(256, 256)\n  return %b, %r",
    "an argument under a view that is read later": f"%x: f32[64]) {{\n{ARGUMENT}  %v = view %a + 4 : f32[8]\n{RESULT}{LAUNCH}"
    "  %r = alloc f32[8]\n  copy %r, %v\n  return %b, %r",
    "an argument that is returned": f"%x: f32[64]) {{\n{ARGUMENT}{RESULT}{LAUNCH}  return %a, %b",
    "an argument of the program": "%a: f32[64]) {\n" + RESULT + LAUNCH + "  return %b",
    "a donated argument of the program": "%a: owned f32[64]) {\n" + RESULT + LAUNCH + "  return %b",
    "a constant": ") {\n" + RESULT + LAUNCH.replace("%a", "%c") + "  return %b",
    "a result of an operator that may be an argument": "%x: f32[64]) {\n  %a = call aten::reshape(%x, [64]) : f32[64]\n"
    f"{RESULT}{LAUNCH}  return %b",
    "a result of an operator of another size": "%x: f32[64]) {\n  %a = call aten::relu(%x) : f32[64]\n  %v = view %a : f32[32]\n"
    "  %b = alloc f32[32]\n  launch @k(%v, %b) extents(128, 128)\n  return %b",
    "a result of an operator where an aligned one is needed": "%x: f32[64]) {\n  %a = call aten::relu(%x) : f32[64]\n"
    f"{RESULT}{LAUNCH}  launch @aligned(%b, %x) extents(256, 256)\n  return",
    "a kernel without a pair": f"%x: f32[64]) {{\n{ARGUMENT}{RESULT}{LAUNCH.replace('@k', '@apart')}  return %b",
    "storages of two sizes": f"%x: f32[64]) {{\n{ARGUMENT}  %b = alloc f32[32]\n  launch @k(%a, %b) extents(128, 128)\n  return %b",
    "another first byte": f"%x: f32[64]) {{\n{ARGUMENT}  %v = view %a + 128 : f32[32]\n{RESULT}"
    "  launch @k(%v, %b) extents(128, 128)\n  return %b",
    "a result that holds something": f"%x: f32[64]) {{\n{ARGUMENT}{RESULT}  copy %b, %x\n  copy %x, %b\n{LAUNCH}  return %b",
    "a result whose bytes are zero": f"%x: f32[64]) {{\n{ARGUMENT}  %b.s = alloc_storage 256 zero(call)\n"
    f"  %b = view %b.s : f32[64]\n{LAUNCH}  return %b",
    "scratch memory": f"%x: f32[64]) {{\n{ARGUMENT}  %b.s = alloc_storage 256 workspace\n  %b = view %b.s : f32[64]\n{LAUNCH}  return",
    "a storage that changes its size": f"%x: f32[64]) {{\n{ARGUMENT}{RESULT}{LAUNCH}  resize_storage %b, 512\n  return %b",
    "an argument of two parameters": f"%x: f32[64]) {{\n{ARGUMENT}  %p = alloc f32[64]\n  %y = alloc f32[64]\n"
    "  launch @two(%a, %a, %p, %y) extents(256, 256, 256, 256)\n  return %p, %y",
    "slots of a pool": "%x: f32[64]) {\n  %pool = alloc_storage 512 pool\n  %a.s = slot %pool : 256\n  %a = view %a.s : f32[64]\n"
    "  launch @apart(%x, %a) extents(256, 256)\n  %b.s = slot %pool + 256 : 256\n  %b = view %b.s : f32[64]\n"
    f"{LAUNCH}  copy %x, %b\n  return",
}  # fmt: skip


@pytest.mark.parametrize("case", KEPT)
def test_what_keeps_its_storage(case: str) -> None:
    program = parse_program(f"{HEAD}func @main({KEPT[case]}\n}}\n")
    assert check(derive_frees(program)) == ()
    assert _allocated(ReuseInPlace().run(program)) == _allocated(program) > 0


DONATED = "%a: owned f32[64]) {\n" + RESULT + LAUNCH + "  return %b"


@pytest.mark.parametrize("type", ["f32[64]", "f32[16, 4]{1, 16}"])
def test_a_donated_argument_is_written_over_where_the_caller_allows(type: str) -> None:
    program = parse_program(f"{HEAD}func @main({DONATED.replace('f32[64]', type, 1)}\n}}\n")
    planned = run_pipeline(program, "reuse-in-place{donated=true}")
    assert (_allocated(program), _allocated(planned)) == (1, 0)


def test_bytes_between_those_of_a_donated_argument_are_others() -> None:
    """They may belong to another argument: parts of one tensor that are saved for the backward graph."""
    program = parse_program(f"{HEAD}func @main({DONATED.replace('f32[64]', 'f32[2, 16]{48, 1}', 1)}\n}}\n")
    assert _allocated(run_pipeline(program, "reuse-in-place{donated=true}")) == 1


@pytest.mark.parametrize("check_of_it", ["", "  assert_layout %a [64] [1] align(16)\n"])
def test_a_result_of_an_operator(check_of_it: str) -> None:
    """Its tensors may be at any address unless checked. A view before the call moves after it."""
    body = (
        f"%x: f32[64]) {{\n{RESULT}  %v = view %b : f32[8, 8]\n  %a = call aten::relu(%x) : "
        f"f32[64]\n{check_of_it}{LAUNCH}"
    )
    body += "  %d = alloc f32[8, 8]\n  launch @k(%v, %d) extents(256, 256)\n"
    body += "  launch @aligned(%d, %x) extents(256, 256)\n" if check_of_it else ""
    text = _reused(f"{body}  return %d")
    assert text.index("%a = call") < text.index("%b = view %a : f32[64]") < text.index("%v = view %b")
    assert "%d = view %v : f32[8, 8]" in text
    assert "alloc" not in text


def test_streams() -> None:
    """Storages of several streams are unchanged: without an event, the argument may still be in use."""
    body = "%x: f32[64] @cuda:0) {\n  %a = alloc f32[64] @cuda:0\n  launch @apart(%x, %a)\n"
    body += "  %b = alloc f32[64] @cuda:0 stream(1)\n  launch @k(%a, %b) stream(1)\n  return %b\n}\n"
    program = parse_program(f"{HEAD}func @main({body}")
    assert _allocated(ReuseInPlace().run(program)) == 2
    alone = parse_program(f"{HEAD}func @main({body.replace(' stream(1)', '')}")
    assert _allocated(ReuseInPlace().run(alone)) == 1


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100))
def test_random_programs(seed: int) -> None:
    program = random_program(random.Random(seed), size=30)
    reused = ReuseInPlace().run(program)
    assert check(reused) == ()
    assert compare(program, reused) is None
    assert program_stats(reused).memory.peak <= program_stats(program).memory.peak


def _allocated(program: ir.Program) -> int:
    return sum(isinstance(op, ir.AllocStorage) for op in program.ops)
