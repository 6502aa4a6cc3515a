"""`sink-waits`: text in, text out, and ops that a wait does not pass."""

from __future__ import annotations

import pytest

from wrapper_ir import parse_program, print_program
from wrapper_ir_passes import run_pipeline

HEAD = """wir 0.5
target cpu

extern "_c10d_functional::all_reduce_(Tensor(a!) input, str reduce_op, str group_name) -> Tensor(a!)" tags(collective)
extern "_c10d_functional::all_reduce(Tensor input, str reduce_op, str group_name) -> Tensor" tags(collective)
extern "aten::bernoulli(Tensor self, *, Generator? generator=None) -> Tensor" tags(random)
extern "lib::log(Tensor x) -> ()" tags(effectful)

"""
START = '  %h = collective _c10d_functional::all_reduce_(%b, "sum", "0") group("0") : f32[8]\n'


def _changed(body: str) -> str:
    program = parse_program(f"{HEAD}func @main(%x: f32[8], %y: f32[8]) {{\n{body}}}\n")
    text = print_program(run_pipeline(program, "sink-waits"))
    return text[text.index("func ") :]


def test_work_that_needs_nothing_of_it_comes_first() -> None:
    """Also work that only reads an argument that the collective reads."""
    text = _changed(
        '  %h = collective _c10d_functional::all_reduce(%x, "sum", "0") group("0") : f32[8]\n'
        "  %s = wait %h : f32[8]\n"
        "  %a = alloc f32[8]\n"
        "  copy %a, %x\n"
        "  copy %a, %y\n"
        "  copy %a, %s\n"
        "  return %a\n"
    )
    assert text.index("copy %a, %y") < text.index("wait %h") < text.index("copy %a, %s")


@pytest.mark.parametrize(
    "stop",
    [
        "  copy %b, %y\n",  # writes what is in flight
        "  copy %a, %b\n",  # reads it
        "  call lib::log(%y)\n",
        "  %r = call aten::bernoulli(%y) : f32[8]\n  free %r\n",
        '  %h2 = collective _c10d_functional::all_reduce_(%y, "sum", "0") group("0") : f32[8]\n  %s2 = wait %h2 : f32[8]\n',
    ],
)
def test_a_wait_stays_before(stop: str) -> None:
    text = _changed(
        f"  %a = alloc f32[8]\n  %b = alloc f32[8]\n  copy %b, %x\n{START}  %s = wait %h : f32[8]\n  copy "
        f"%a, %y\n{stop}  return %a, %s\n"
    )
    first = stop.strip().splitlines()[0]
    assert text.index("copy %a, %y") < text.index("wait %h :") < text.index(first)


def test_nothing_to_overlap_with_moves_nothing() -> None:
    body = (
        f"  %b = alloc f32[8]\n  copy %b, %x\n{START}  %s = wait %h : f32[8]\n  %a = alloc f32[8]\n"
        "  copy %a, %s\n  return %a\n"
    )
    text = _changed(body)
    assert text.index("wait %h") < text.index("%a = alloc")
