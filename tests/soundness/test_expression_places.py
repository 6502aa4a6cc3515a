"""Numbers that do not exist, or that are not int64, are refused alike wherever programs have expressions."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import cpp_wrapper
import wrapper_ir
from cpp_wrapper.library.batch import build_libraries
from tests.cpp.cpp_case import FAST
from tests.soundness.expression_engines import Outcome, Run, engines
from wrapper_ir.artifact import Artifact, bare_artifact
from wrapper_ir.errors import code_of

HEAD = """wir 0.5
target cpu

symbol s : int backed [0, *]
symbol a : int unbacked
symbol f : float unbacked
symbol d : int unbacked
symbol h : float unbacked
extern "aten::full(SymInt[] size, Scalar fill_value, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor"
extern "aten::mul.Scalar(Tensor self, Scalar other) -> Tensor"
kernel cpp @scale entry "kernel" (readwrite f32* x, f64 by, i64 count, bool on) {{{
#include <cstdint>
extern "C" void kernel(float* x, const double by, const int64_t count, const bool on)
{
    if (on && count > 0) x[0] *= by;
}
}}}

func @main(%x: f32[s], %a: int, %f: float) {
  define s = size(%x, 0)
  define a = item(%a)
  define f = item(%f)
"""
TAIL = """
}
func @one() {
  return 1
}
func @two() {
  return 2
}
func @same(%n: int) {
  define d = item(%n)
  return d
}
func @less(%n: int) {
  define d = item(%n)
  return d < 3
}
func @more(%n: int) {
  define d = item(%n)
  return d + 1
}
"""
PLACES = {
    "size": "  %y = alloc f32[INT] zero(call)\n  return %y",
    "several_sizes": "  %y = alloc f32[INT, 0, INT] zero(call)\n  return %y",
    "stride": "  %y = view %x : f32[1]{INT}\n  return %y",
    "size_of_a_view": "  %y = view %x : f32[INT]{0}\n  return %y",
    "definition": "  define d = INT\n  return d",
    "definition_of_a_float": "  define h = FLOAT\n  return h",
    "int_of_a_kernel": "  %o = alloc f32[1] zero(call)\n  launch @scale(%o, 1.0, INT, true)\n  return %o",
    "float_of_a_kernel": "  %o = alloc f32[1] zero(call)\n  launch @scale(%o, FLOAT, 1, true)\n  return %o",
    "bool_of_a_kernel": "  %o = alloc f32[1] zero(call)\n  launch @scale(%o, 1.0, 1, BOOL)\n  return %o",
    "size_of_an_operator": "  %y = call aten::full([INT], 1.0, dtype=f32) : f32[INT]\n  return %y",
    "scalar_of_an_operator": "  %y = call aten::mul.Scalar(%x, FLOAT) : f32[s]\n  return %y",
    "int_of_an_operator": "  %y = call aten::mul.Scalar(%x, INT) : f32[s]\n  return %y",
    "assertion": '  assert BOOL "said"\n  return',
    "results": "  return INT, FLOAT, BOOL",
    "condition": "  %r = cond BOOL then @one else @two () : int\n  return %r",
    "index": "  %r = switch INT [@one, @two] () : int\n  return %r",
    "argument_of_a_function": "  %r = call_subgraph @same(INT) : int\n  return %r",
    "carried": "  %r = while @less do @more carried(INT) : int\n  return %r",
}
NUMBERS = (
    {
        "INT": "where(a > 0, 1, 2 // a)",
        "FLOAT": "where(a > 0, 1.5, f / to_float(a))",
        "BOOL": "a > 0 or 8 // a > 1",
    },
    {"INT": "to_int(f*f)", "FLOAT": "sqrt(f)", "BOOL": "to_int(f*0.5) > a"},
    {"INT": "round(f)*round(f)", "FLOAT": "f**0.5", "BOOL": "f == a"},
)
ENVIRONMENTS = ((1, 1.0), (0, 1.0), (0, float("nan")), (2, 2.0**62), (2**62, -1.0), (0, 0.0), (-1, 2.0**32))


def program(place: str, number: int) -> Artifact:
    body = PLACES[place]
    for word, text in NUMBERS[number].items():
        body = body.replace(word, text)
    parsed = wrapper_ir.parse_program(HEAD + body + TAIL)
    wrapper_ir.verify(parsed)
    return bare_artifact(parsed)


def outcome(call: Run, a: int, f: float) -> Outcome:
    try:
        found = call([torch.ones(3), a, f])
    except Exception as error:
        return code_of(error) or "WIR927"  # graphs pass torch's own errors on
    return [shown(x) for x in found]


def shown(x: Any) -> str:  # Any: a result
    if not isinstance(x, Tensor):
        return repr(x)
    return f"{[*x.shape]} {x.stride()} {[str(n) for n in x.flatten()[:2].tolist()]}"


def differences(ways: Mapping[str, Run]) -> list[str]:
    """Returns differences of engines from the interpreter."""
    wrong = []
    for env in ENVIRONMENTS:
        want = outcome(ways["interpreter"], *env)
        found = {name: outcome(call, *env) for name, call in ways.items()}
        wrong += [f"{name} with {env}: {got}, not {want}" for name, got in found.items() if got != want]
    return wrong


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> Mapping[tuple[str, int], Run]:
    """The programs in C++."""
    folder = tmp_path_factory.mktemp("places")
    keys = [(place, number) for place in PLACES for number in range(len(NUMBERS))]
    paths = {key: folder / f"{key[0]}_{key[1]}.so" for key in keys}
    build_libraries([(cpp_wrapper.emit(program(*key)), path) for key, path in paths.items()], FAST)
    return {key: cpp_wrapper.load(path).boxed for key, path in paths.items()}


@pytest.mark.slow
@pytest.mark.parametrize("place", PLACES)
def test_every_engine_refuses_alike(
    place: str, libraries: Mapping[tuple[str, int], Run], tmp_path: Path
) -> None:
    for number in range(len(NUMBERS)):
        ways = {**engines(program(place, number), tmp_path), "cpp": libraries[place, number]}
        assert differences(ways) == []
