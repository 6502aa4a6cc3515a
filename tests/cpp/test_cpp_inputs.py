"""Each malformed input causes a coded error with input, expected and actual value, and the next valid call
works.
"""

from __future__ import annotations

import ctypes
import random
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import cpp_wrapper
from cpp_wrapper._compat import open_runner
from cpp_wrapper.library.batch import build_libraries
from tests.common.torch_versions import since
from tests.cpp.cpp_case import FAST, KERNELS, artifact_of_text, resident
from wrapper_ir.errors import ArgumentError, ExecutionError, ExpressionError, TensorCheckError
from wrapper_ir.plugins.protocols import CompiledProgram

TEXT = (
    KERNELS
    + """
func @main(%x: f32[s0, 4], %w: f32[s0, s1]{1, s0}, %i: i64[2], %n: int) {
  define s0 = size(%x, 0)
  define s1 = size(%w, 1)
  define u0 = item(%n)
  assert s0 >= 2 "too few rows"
  assert s0 <= 64 "too many rows"
  assert u0 <= s1 "n reaches over the columns"
  assert_layout %w [s0, s1] [1, s0] "w"
  %y = alloc f32[s0, 4]
  launch @double(%x, %y, s0*4)
  return %y, u0 + s1
}
"""
)
_X, _I = torch.arange(12.0).view(3, 4), torch.tensor([1, 2])


def _w(rows: int = 3, columns: int = 5) -> Tensor:
    return torch.ones(columns, rows).t()


def _valid() -> list[Any]:
    return [_X.clone(), _w(), _I.clone(), torch.tensor(2)]


def _at(position: int, value: Any) -> list[Any]:  # Any: arguments of any class
    given = _valid()
    given[position] = value
    return given


DTYPES = (
    torch.float64,
    torch.float16,
    torch.bfloat16,
    torch.int32,
    torch.int64,
    torch.uint8,
    torch.bool,
    torch.complex64,
)
# Arguments for torch's own runner, the code, and words of the message.
MALFORMED: tuple[tuple[list[Any], str, str], ...] = (
    *((_at(0, _X.to(dtype)), "WIR926", "argument x: expected f32[s0, 4] on cpu, got ") for dtype in DTYPES),
    *((_at(1, _w().to(dtype)), "WIR926", "argument w: expected f32[s0, s1]") for dtype in DTYPES),
    *(
        (_at(2, _I.to(dtype)), "WIR926", "argument i: expected i64[2]")
        for dtype in DTYPES
        if dtype != torch.int64
    ),
    *(
        (_at(3, torch.tensor(2).to(dtype)), "WIR926", "argument n: expected int")
        for dtype in DTYPES
        if dtype != torch.int64
    ),
    (_at(0, _X[0]), "WIR921", "got f32[4] on cpu"),
    (_at(0, _X[None]), "WIR921", "got f32[1, 3, 4] on cpu"),
    (_at(0, _X[:, :3]), "WIR921", "got f32[3, 3]{4, 1} on cpu"),
    (_at(0, torch.ones(4, 3).t()), "WIR921", "got f32[3, 4]{1, 3} on cpu"),
    (_at(0, torch.ones(3, 8)[:, ::2]), "WIR921", "got f32[3, 4]{8, 2} on cpu"),
    (_at(0, torch.ones(1, 4).expand(3, 4)), "WIR921", "got f32[3, 4]{0, 1} on cpu"),
    (_at(0, torch.tensor(1.0)), "WIR921", "got f32[] on cpu"),
    (_at(0, _X.to_sparse()), "WIR926", "not strided"),
    (_at(0, torch.empty(3, 4, device="meta")), "WIR926", "on another device"),
    (_at(0, _X[:1]), "WIR920", "too few rows: s0 >= 2"),
    (_at(0, _X[:0]), "WIR920", "too few rows: s0 >= 2"),
    (_at(0, torch.ones(65, 4)), "WIR920", "too many rows: s0 <= 64"),
    (_at(0, torch.ones(4, 4)), "WIR921", "sizes [4, 5]"),
    (_at(1, torch.ones(3, 5)), "WIR921", "got f32[3, 5] on cpu"),
    (_at(1, _w(2)), "WIR921", "sizes [3, 5]"),
    (_at(1, _w()[0]), "WIR921", "got f32[5]{3} on cpu"),
    (_at(1, _w(columns=1)), "WIR920", "n reaches over the columns"),
    (_at(2, _I[:1]), "WIR921", "got i64[1] on cpu"),
    (_at(2, torch.ones(3, dtype=torch.int64)), "WIR921", "got i64[3] on cpu"),
    (_at(2, torch.ones(4, dtype=torch.int64)[::2]), "WIR921", "got i64[2]{2} on cpu"),
    (_at(3, torch.tensor(6)), "WIR920", "n reaches over the columns: u0 <= s1"),
    (_at(3, torch.tensor([2])), "WIR926", "as a tensor i64[] on cpu, got i64[1]"),
    (_at(3, torch.tensor(2, device="meta")), "WIR926", "argument n"),
    (_valid()[:3], "WIR926", "expected 4 inputs, got 3"),
    ([*_valid(), _X], "WIR926", "expected 4 inputs, got 5"),
    ([], "WIR926", "expected 4 inputs, got 0"),
)
assert len(MALFORMED) >= 50


FAILING = """
extern "aten::index_select(Tensor self, int dim, Tensor index) -> Tensor"

func @main(%x: f32[100000], %i: i64[2]) {
  %y = alloc f32[100000]
  copy %y, %x
  %r = call aten::index_select(%y, 0, %i) : f32[2]  #1
  free %y
  return %r
}

provenance
  #1 nodes("picked") ops("aten.index_select.default") at("model.py:7") modules("head")
"""
SIZES = """
func @main(%n: int) {
  define u0 = item(%n)
  define s0 = u0*u0*u0
  return s0, u0 // 2
}
"""


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    """The libraries of all programs here."""
    folder = tmp_path_factory.mktemp("inputs")
    texts = {"inputs": TEXT, "failing": FAILING, "sizes": SIZES}
    paths = {name: folder / f"{name}.so" for name in texts}
    build_libraries([(cpp_wrapper.emit(artifact_of_text(t)), paths[name]) for name, t in texts.items()], FAST)
    return paths


@pytest.fixture
def library(libraries: Mapping[str, Path]) -> Path:
    return libraries["inputs"]


def _said(error: BaseException, library: Path) -> str:
    """Returns the message of a failed run: torch's own runner queries the library for its last error from
    2.13 on.
    """
    if since("2.13"):
        return str(error)
    text = ctypes.c_char_p()
    ctypes.CDLL(str(library)).AOTInductorGetLastError(ctypes.byref(text))
    return (text.value or b"").decode()


def test_every_malformed_input_is_refused_and_the_next_call_works(library: Path) -> None:
    runner = open_runner(library)
    for given, code, words in MALFORMED:
        with pytest.raises(RuntimeError) as caught:
            runner.run(given)
        said = _said(caught.value, library)
        assert f"[{code}]" in said, said
        assert words in said, said
        assert torch.equal(runner.run(_valid())[0], 2 * _X)


def _spoiled(x: Tensor, draw: random.Random) -> Tensor:
    """The tensor, or one like it, with one property that no valid argument in its place has."""
    rank = x.dim()
    ways: list[Callable[[], Tensor]] = [
        lambda: x.to(draw.choice([dtype for dtype in DTYPES if dtype != x.dtype])),
        lambda: x.to("meta"),
        lambda: x.unsqueeze(draw.randrange(rank + 1)),
        lambda: x.unsqueeze(0).expand(draw.randrange(2, 5), *x.shape),
    ]
    if rank:
        ways += [
            lambda: x.flatten()[draw.randrange(x.numel())],
            lambda: x.to_sparse(),
            lambda: x.repeat_interleave(70, 0),
            lambda: (
                x.repeat_interleave(2, rank - 1)[..., ::2].clone().repeat_interleave(2, rank - 1)[..., ::2]
            ),
            lambda: x[:0],
        ]
    return draw.choice(ways)()


def test_five_hundred_malformed_inputs(library: Path) -> None:
    draw, runner, program = random.Random(5), open_runner(library), cpp_wrapper.load(library)
    seen: dict[str, int] = {}
    for _ in range(500):
        given = _valid()
        position = draw.randrange(len(given))
        given[position] = _spoiled(given[position], draw)
        if position == 2 and draw.random() < 0.2:
            del given[draw.randrange(len(given))]
        with pytest.raises(RuntimeError) as caught:
            runner.run(given)
        said = _said(caught.value, library)
        match = re.search(r"\[(WIR92[016])\] (.*)", said)
        assert match is not None, said
        assert "expected" in match[2] or match[1] == "WIR920", match[2]
        seen[match[1]] = seen.get(match[1], 0) + 1
        if len(given) == 4 and position < 3:
            with pytest.raises(ExecutionError, match=r"\[WIR9"):
                program(*given[:3], 2)
        assert torch.equal(runner.run(_valid())[0], 2 * _X)
        assert torch.equal(program(_X, _w(), _I, 2)[0], 2 * _X)
    assert set(seen) == {"WIR920", "WIR921", "WIR926"}


BY_LOADER = (
    (lambda f: f(_X, _w(), _I, 2.0), ArgumentError, "argument n: expected an int, got float"),
    (lambda f: f(_X, _w(), _I, True), ArgumentError, "argument n: expected an int, got bool"),
    (lambda f: f(_X, _w(), _I, 1 << 63), ArgumentError, "an int of 64 bits"),
    (lambda f: f("x", _w(), _I, 2), ArgumentError, "argument x: expected a tensor f32[s0, 4]"),
    (lambda f: f(_X, _w(), _I), ExecutionError, "n"),
    (lambda f: f(_X, _w(), _I, 6), ExecutionError, "n reaches over the columns"),
    (lambda f: f(_X.double(), _w(), _I, 2), ArgumentError, "expected f32[s0, 4] on cpu, got f64[3, 4]"),
    (lambda f: f(_X[0], _w(), _I, 2), TensorCheckError, "expected f32[s0, 4] on cpu, got f32[4]"),
    (lambda f: f.boxed([_X]), ArgumentError, "expected 4 arguments ['x', 'w', 'i', 'n'], got 1"),
)


@pytest.mark.parametrize(("call", "kind", "words"), BY_LOADER)
def test_our_loader_gives_typed_errors(
    library: Path, call: Callable[[CompiledProgram], object], kind: type[ExecutionError], words: str
) -> None:
    program = cpp_wrapper.load(library)
    with pytest.raises(kind, match=r"\[WIR9") as caught:
        call(program)
    assert words in str(caught.value)
    result, total = program(_X, _w(), _I, 2)
    assert torch.equal(result, 2 * _X)
    assert total == 7


def test_a_failing_operator_says_which_and_leaks_nothing(libraries: Mapping[str, Path]) -> None:
    program = cpp_wrapper.load(libraries["failing"])
    x = torch.arange(100000.0)
    before = resident()
    for _ in range(150):  # 5 ms each, in which torch names the functions on its stack
        with pytest.raises(ExecutionError, match=r"\[WIR927\] aten::index_select failed") as caught:
            program(x, torch.tensor([0, 100000]))
    assert "picked: index_select (model.py:7 in head)" in str(caught.value)
    assert resident() - before < 30 * 400_000  # 150 calls of 400,000 bytes each
    assert program(x, torch.tensor([3, 4]))[0].tolist() == [3, 4]


def test_sizes_that_do_not_fit_are_errors(libraries: Mapping[str, Path]) -> None:
    program = cpp_wrapper.load(libraries["sizes"])
    assert program(1000) == (10**9, 500)
    with pytest.raises(ExpressionError, match="WIR408"):
        program(1 << 22)
    assert program(7) == (343, 3)
