"""Open bounds are checked at run time in every engine: interpreter, Python, and FX graphs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import fx_converter
import py_wrapper
from py_wrapper.machine import TORCH_MACHINE
from wrapper_ir import ir, parse_program, verify
from wrapper_ir.artifact import bare_artifact
from wrapper_ir.errors import ExecutionError, NotSupportedError
from wrapper_ir_runtime.interp import run

_HEAD = """wir 0.5
target cpu

symbol s0 : int backed [2, 64] hint 4
symbol s1 : int backed [0, 4000000] hint 3
symbol u0 : int unbacked [0, 4]
extern "aten::neg(Tensor self) -> Tensor"
extern "aten::mm.out(Tensor self, Tensor mat2, *, Tensor(a!) out) -> Tensor(a!)"

func @main(%x: f32[s0, 8], %y: f32[s1, 8], %n: i64[]) {
  define s0 = size(%x, 0)
  define s1 = size(%y, 0)
"""
_TAIL = "\n  drop %x\n  drop %y\n  drop %n\n  return %r\n}\n"

# The body, and rows of %x, rows of %y and the number that the program is right for; others that it is wrong
# for.
CASES = {
    "view": (
        "  %v = view %x : f32[s1, 8]\n  %r = call aten::neg(%v) : f32[s1, 8]",
        [(4, 3, 0), (4, 4, 0), (2, 0, 0)],
        [(4, 5, 0), (2, 4000, 0)],
    ),
    "difference": (
        "  %v = view %x + 32*s1 : f32[s0 - s1, 8]\n  %r = call aten::neg(%v) : f32[s0 - s1, 8]",
        [(4, 3, 0), (4, 4, 0)],
        [(4, 5, 0)],
    ),
    "declared_range": (
        "  %v = view %x + 32 : f32[8]\n  %r = call aten::neg(%v) : f32[8]",
        [(2, 1, 0), (64, 1, 0)],
        [(0, 1, 0), (1, 1, 0)],
    ),
    "declared_range_of_a_number": (
        "  define u0 = item(%n)\n  %s = alloc f32[4] zero(call)\n  %v = view %s : f32[u0]\n"
        "  %r = call aten::neg(%v) : f32[u0]\n  free %s.s",
        [(2, 1, 0), (2, 1, 4)],
        [(2, 1, 5), (2, 1, -1), (2, 1, 2**40)],
    ),
    "offset": (
        "  define u0 = item(%n)\n  %v = view %x + 32*u0 : f32[8]\n  %r = call aten::neg(%v) : f32[8]",
        [(2, 1, 0), (2, 1, 1), (5, 1, 4)],
        [(2, 1, 2), (2, 1, -1), (5, 1, 5)],
    ),
    "unwritten": (
        "  %b = alloc f32[s1//2, 8]\n  %r = call aten::neg(%b) : f32[s1//2, 8]\n  free %b.s",
        [(4, 1, 0), (4, 0, 0)],
        [(4, 2, 0)],
    ),
    "output_of_another_shape": (
        "  %m = view %y : f32[8, s1]\n  %r = alloc f32[s0, s0]\n  call aten::mm.out(%x, %m, out=%r)",
        [(3, 3, 0)],
        [(3, 2, 0), (2, 3, 0)],
    ),
}
ENGINES: dict[str, Callable[[ir.Program], Callable[[list[Any]], Any]]] = {
    "interpreter": lambda program: lambda args: run(program, args, TORCH_MACHINE),
    "python": lambda program: py_wrapper.compile(bare_artifact(program)).boxed,
    "fx": lambda program: fx_converter.compile(bare_artifact(program)).boxed,
}


def _inputs(rows: int, others: int, number: int) -> list[Any]:
    generator = torch.Generator().manual_seed(0)
    x, y = (torch.randn(n, 8, generator=generator) for n in (rows, others))
    return [x, y, torch.tensor(number)]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", CASES)
def test_every_engine_checks(name: str, engine: str) -> None:
    body, good, bad = CASES[name]
    program = parse_program(_HEAD + body + _TAIL)
    verify(program)
    boxed = ENGINES[engine](program)
    for numbers in good:
        (result,) = boxed(_inputs(*numbers))
        (wanted,) = run(program, _inputs(*numbers), TORCH_MACHINE)
        assert torch.equal(result, wanted), numbers
    for numbers in bad:
        with pytest.raises(ExecutionError) as caught:
            boxed(_inputs(*numbers))
        assert caught.value.code == "WIR920", numbers


_OUT = """wir 0.5
target cpu
SYMBOL
extern "aten::add.out(Tensor self, Tensor other, *, Scalar alpha=1, Tensor(a!) out) -> Tensor(a!)"
extern "aten::neg(Tensor self) -> Tensor"

func @main(%x: f32[SIZE], %y: f32[4]) {
  DEFINE
  call aten::add.out(%x, %x, out=%y)
  %r = call aten::neg(%y) : f32[4]
  drop %x
  drop %y
  return %r
}
"""


@pytest.mark.filterwarnings("ignore:An output with one or more elements was resized")
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("symbolic", [False, True])
def test_an_output_that_the_library_resizes(engine: str, symbolic: bool) -> None:
    words = (
        ("symbol s0 : int backed [1, 64] hint 4", "s0", "define s0 = size(%x, 0)")
        if symbolic
        else ("", "9", "")
    )
    text = _OUT.replace("SYMBOL", words[0]).replace("SIZE", words[1]).replace("DEFINE", words[2])
    program = parse_program(text)
    verify(program)
    boxed = ENGINES[engine](program)
    if symbolic:
        (result,) = boxed([torch.ones(4), torch.zeros(4)])
        assert result.tolist() == [-2.0] * 4
    with pytest.raises(ExecutionError) as caught:
        boxed([torch.ones(9), torch.zeros(4)])
    assert caught.value.code == "WIR921"


_SET = """wir 0.5
target cpu

symbol s0 : int backed [0, 4096] hint 64
extern "aten::neg(Tensor self) -> Tensor"

func @main(%x: f32[64], %y: f32[s0]) {
  define s0 = size(%y, 0)
  set_storage %x, %y
  %v = view %x : f32[8]
  %r = call aten::neg(%v) : f32[8]
  drop %x
  drop %y
  return %r
}
"""


@pytest.mark.parametrize("engine", ENGINES)
def test_a_source_that_may_be_smaller_than_what_is_set_to_it(engine: str) -> None:
    program = parse_program(_SET)
    verify(program)
    boxed = ENGINES[engine](program)
    (result,) = boxed([torch.zeros(64), torch.ones(8)])
    assert result.tolist() == [-1.0] * 8
    with pytest.raises(ExecutionError) as caught:
        boxed([torch.zeros(64), torch.ones(7)])
    assert caught.value.code == "WIR920"


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    "schema",
    [
        "aten::neg_(Tensor self) -> Tensor",  # writes
        "aten::neg_(Tensor(a!) self) -> Tensor",  # returns its argument
        "aten::t(Tensor self) -> Tensor",  # a view
        "aten::neg_(Tensor(a!) self, Tensor other) -> Tensor(a!)",
    ],
)
def test_an_operator_that_does_more_than_is_declared(engine: str, schema: str) -> None:
    name = schema.partition("(")[0]
    more = ", %x" if "other" in schema else ""
    text = f"""wir 0.5
target cpu

extern "{schema}"

func @main(%x: f32[2, 2]) {{
  %r = call {name}(%x{more}) : f32[2, 2]
  drop %x
  drop %r
  return
}}
"""
    program = parse_program(text if "-> Tensor(a!)" in schema else text.replace("drop %r", "free %r"))
    verify(program)
    with pytest.raises(NotSupportedError) as caught:
        ENGINES[engine](program)([torch.ones(2, 2)])
    assert caught.value.code == "WIR919"


_LOOP = """wir 0.5
target cpu

symbol s0 : int backed [1, 64] hint 4
symbol u0 : int unbacked [0, 64]
extern "aten::cat(Tensor[] tensors, int dim=0) -> Tensor"
extern "aten::relu(Tensor self) -> Tensor"

func @main(%x: f32[s0], %p: bool[]) {
  define s0 = size(%x, 0)
  %r = cond %p then @longer else @same (%x) : f32[s0]
  drop %x
  drop %p
  return %r
}

func @longer(%a: f32[s0]) captures(s0) {
  %t = call aten::cat([%a, %a]) : f32[2*s0]
  drop %a
  return %t
}

func @same(%a: f32[s0]) captures(s0) {
  %t = call aten::relu(%a) : f32[s0]
  drop %a
  return %t
}
"""


@pytest.mark.parametrize("engine", ENGINES)
def test_results_of_functions_have_their_types(engine: str) -> None:
    program = parse_program(_LOOP)
    verify(program)
    boxed = ENGINES[engine](program)
    (result,) = boxed([torch.ones(4), torch.tensor(False)])
    assert result.tolist() == [1.0] * 4
    with pytest.raises(ExecutionError) as caught:
        boxed([torch.ones(4), torch.tensor(True)])
    assert caught.value.code == "WIR921"
