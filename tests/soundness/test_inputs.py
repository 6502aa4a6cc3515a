"""Every engine compares inputs with the declared types in each call, and refuses each kind of mismatch."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

import py_wrapper
from fx_converter.targets.checks import described, expectation
from tests.common.input_engines import Run, artifact_of, engines
from wrapper_ir import ir
from wrapper_ir.analysis.inputs import input_checks
from wrapper_ir.artifact import bare_artifact
from wrapper_ir.errors import ExecutionError, code_of
from wrapper_ir.text import parse_program
from wrapper_ir_runtime.caller import TorchCaller
from wrapper_ir_runtime.inputs import check_inputs

FIXED = """extern "aten::neg(Tensor self) -> Tensor"

func @main(%x: f32[8, 6]) {
  %y = call aten::neg(%x) : f32[8, 6]
  drop %x
  return %y
}
"""
DYNAMIC = """symbol s0 : int backed [1, 64]

extern "aten::neg(Tensor self) -> Tensor"

func @main(%x: f32[s0, 6], %y: i64[2*s0]) {
  define s0 = size(%x, 0)
  %a = call aten::neg(%x) : f32[s0, 6]
  %b = call aten::neg(%y) : i64[2*s0]
  drop %x
  drop %y
  return %a, %b
}
"""
STRIDED = """extern "aten::neg(Tensor self) -> Tensor"

func @main(%x: f32[4, 3]{1, 4}) {
  %y = call aten::neg(%x) : f32[4, 3]{1, 4}
  drop %x
  return %y
}
"""
NUMBERS = """symbol s0 : int backed
symbol f0 : float backed
symbol b0 : bool backed

func @main(%n: int, %f: float, %b: bool) {
  define s0 = item(%n)
  define f0 = item(%f)
  define b0 = item(%b)
  return s0, f0, b0
}
"""
BYTES = """func @main(%x: i8[16]) {
  %y = view %x : i32[4]
  return %y
}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("inputs")


def made(text: str, folder: Path) -> dict[str, Run]:
    return dict(engines(artifact_of(text), folder))


class Wrapper(Tensor):
    """A tensor without memory, whose class does all of the work."""

    @staticmethod
    def __new__(cls, inner: Tensor) -> Wrapper:
        return Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)

    @classmethod
    def __torch_dispatch__(cls, *_: Any, **__: Any) -> Any:
        raise AssertionError("an operator runs on it")


class Plain(Tensor):
    """A class with memory, and no further features."""


class Watching(Tensor):
    """A class that is notified of every operator."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return super().__torch_function__(func, types, args, kwargs)  # type: ignore[no-untyped-call]  # torch's


X = torch.arange(48.0).reshape(8, 6)
COMPLEX = torch.ones(8, 6, dtype=torch.complex64)
EXPECTED = "argument x: expected f32[8, 6] on cpu, got "
WRONG: dict[str, tuple[Callable[[], Any], str]] = {
    "a list": (lambda: X.tolist(), "[WIR926] argument x: expected a tensor f32[8, 6], got list"),
    "an array": (lambda: X.numpy(), "[WIR926] argument x: expected a tensor f32[8, 6], got ndarray"),
    "a number": (lambda: 3, "[WIR926] argument x: expected a tensor f32[8, 6], got int"),
    "nothing": (lambda: None, "[WIR926] argument x: expected a tensor f32[8, 6], got NoneType"),
    "f64": (lambda: X.double(), f"[WIR926] {EXPECTED}f64[8, 6] on cpu"),
    "as wide": (lambda: X.int(), f"[WIR926] {EXPECTED}i32[8, 6] on cpu"),
    "meta": (lambda: X.to("meta"), f"[WIR926] {EXPECTED}f32[8, 6] on meta"),
    "sparse": (lambda: X.to_sparse(), f"[WIR926] {EXPECTED}sparse_coo f32[8, 6] on cpu"),
    "rows": (lambda: X.to_sparse_csr(), f"[WIR926] {EXPECTED}sparse_csr f32[8, 6] on cpu"),
    "quantised": (
        lambda: torch.quantize_per_tensor(X, 0.1, 0, torch.qint8),
        f"[WIR926] {EXPECTED}quantized qint8[8, 6] on cpu",
    ),
    "negated": (lambda: COMPLEX.conj().imag, f"[WIR926] {EXPECTED}negated f32[8, 6]{{12, 2}} on cpu"),
    "conjugated": (lambda: COMPLEX.conj(), f"[WIR926] {EXPECTED}conjugated c64[8, 6] on cpu"),
    "nested": (lambda: torch.nested.nested_tensor([X]), f"[WIR926] {EXPECTED}nested f32[] on cpu"),
    "jagged": (
        lambda: torch.nested.nested_tensor([X], layout=torch.jagged),
        f"[WIR926] {EXPECTED}NestedTensor f32[] on cpu",
    ),
    "a wrapper": (lambda: Wrapper(X), f"[WIR926] {EXPECTED}Wrapper f32[8, 6] on cpu"),
    "a watching class": (lambda: X.as_subclass(Watching), f"[WIR926] {EXPECTED}Watching f32[8, 6] on cpu"),
    "smaller": (lambda: X[:7], f"[WIR921] {EXPECTED}f32[7, 6] on cpu"),
    "flat": (lambda: X.flatten(), f"[WIR921] {EXPECTED}f32[48] on cpu"),
    "a scalar": (lambda: X[0, 0], f"[WIR921] {EXPECTED}f32[] on cpu"),
    "empty": (lambda: X[:0], f"[WIR921] {EXPECTED}f32[0, 6] on cpu"),
    "turned": (lambda: X.reshape(6, 8).t(), f"[WIR921] {EXPECTED}f32[8, 6]{{1, 8}} on cpu"),
    "expanded": (lambda: X[:1].expand(8, 6), f"[WIR921] {EXPECTED}f32[8, 6]{{0, 1}} on cpu"),
}


@pytest.mark.filterwarnings("ignore:.*quantized.*", "ignore:.*[Ss]parse.*", "ignore:.*nested.*")
def test_what_is_wrong_is_named_by_every_engine(folder: Path) -> None:
    runs = made(FIXED, folder)
    assert len(runs) == 16
    for name, (make, message) in WRONG.items():
        for engine, run in runs.items():
            for _ in range(2):  # any state that an engine caches from a call
                with pytest.raises(ExecutionError, match=re.escape(message)):
                    pytest.fail(f"{engine} takes {name}: {run([make()])}")
    for run in runs.values():  # the right one, before and after a wrong one
        torch.testing.assert_close(_first(run([X])), -X)
        with pytest.raises(ExecutionError, match="WIR926"):
            run([X.double()])
        torch.testing.assert_close(_first(run([X])), -X)


def _first(results: Any) -> Any:
    return results[0] if isinstance(results, tuple) else results


@pytest.mark.parametrize(
    "x",
    [
        nn.Parameter(X, requires_grad=False),
        nn.Buffer(X),
        X.as_subclass(Plain),
        torch.ones(9, 6)[1:],
        torch.from_numpy(X.numpy()),
    ],
    ids=["parameter", "buffer", "class", "offset", "array"],
)
def test_memory_of_other_classes_is_taken(x: Tensor, folder: Path) -> None:
    for run in made(FIXED, folder).values():
        for _ in range(2):
            found = _first(run([x])).as_subclass(Tensor)
            torch.testing.assert_close(found, -x.detach().as_subclass(Tensor))


def test_inference_tensors_and_gradients(folder: Path) -> None:
    with torch.inference_mode():
        inference = X.clone()
    wants = X.clone().requires_grad_()
    for run in made(FIXED, folder).values():
        for x in (X, inference, wants, nn.Parameter(X), X, wants) * 4:
            with torch.no_grad():
                torch.testing.assert_close(_first(run([x])), -X)


def test_bytes_are_not_read_as_something_longer(folder: Path) -> None:
    """The view's own proof is about the type, not about the tensor."""
    for run in made(BYTES, folder).values():
        with pytest.raises(
            ExecutionError, match=re.escape("WIR921] argument x: expected i8[16] on cpu, got i8[2]")
        ):
            run([torch.ones(2, dtype=torch.int8)])
        with pytest.raises(ExecutionError, match=re.escape("got bool[16] on cpu")):
            run([torch.ones(16, dtype=torch.bool)])


def test_sizes_that_a_symbol_tells(folder: Path) -> None:
    for run in made(DYNAMIC, folder).values():
        for rows in (3, 5, 1):
            x, y = torch.ones(rows, 6), torch.ones(2 * rows, dtype=torch.int64)
            a, b = run([x, y])
            assert torch.equal(a, -x)
            assert torch.equal(b, -y)
        with pytest.raises(ExecutionError, match=r"WIR921(.|\n)*argument y"):
            run([torch.ones(3, 6), torch.ones(5, dtype=torch.int64)])
        with pytest.raises(
            ExecutionError, match=re.escape("argument x: expected f32[s0, 6] on cpu, got f32[3, 5]")
        ):
            run([torch.ones(3, 5), torch.ones(6, dtype=torch.int64)])
        with pytest.raises(
            ExecutionError, match=re.escape("argument x: expected a tensor f32[s0, 6], got list")
        ):
            run([[1.0], torch.ones(6, dtype=torch.int64)])
        with pytest.raises(
            ExecutionError, match=re.escape("argument y: expected i64[2*s0] on cpu, got i32[6]")
        ):
            run([torch.ones(3, 6), torch.ones(6, dtype=torch.int32)])


def test_strides_matter_where_elements_do(folder: Path) -> None:
    right = torch.arange(12.0).reshape(3, 4).t()
    for run in made(STRIDED, folder).values():
        assert torch.equal(_first(run([right])), -right)
        with pytest.raises(
            ExecutionError, match=re.escape("expected f32[4, 3]{1, 4} on cpu, got f32[4, 3] on cpu")
        ):
            run([right.contiguous()])
    one = FIXED.replace("8, 6", "1, 6")
    for run in made(one, folder).values():  # strides of size 1, and of no elements, are irrelevant
        assert torch.equal(_first(run([torch.ones(6, 1).t()])), -torch.ones(1, 6))
        assert torch.equal(_first(run([torch.ones(1, 6).as_strided((1, 6), (99, 1))])), -torch.ones(1, 6))
    for run in made(FIXED.replace("8, 6", "0, 6"), folder).values():
        assert _first(run([torch.ones(6, 0).t()])).shape == (0, 6)


NUMBERS_WRONG: list[tuple[list[Any], str]] = [  # Any: values that are not numbers
    ([True, 0.5, True], "argument n: expected an int, got bool"),
    ([1.0, 0.5, True], "argument n: expected an int, got float"),
    ([numpy.int64(1), 0.5, True], "argument n: expected an int, got numpy.int64"),
    ([torch.tensor(1), 0.5, True], "argument n: expected an int, got torch.Tensor"),
    ([1 << 63, 0.5, True], "argument n: expected an int of 64 bits, got 9223372036854775808"),
    ([-(1 << 63) - 1, 0.5, True], "argument n: expected an int of 64 bits, got -9223372036854775809"),
    ([1 << 9999, 0.5, True], "argument n: expected an int of 64 bits, got a larger one"),
    (["1", 0.5, True], "argument n: expected an int, got str"),
    ([1, 1, True], "argument f: expected a float, got int"),
    ([1, numpy.float64(1), True], "argument f: expected a float, got numpy.float64"),
    ([1, 0.5, 1], "argument b: expected a bool, got int"),
    ([1, 0.5, numpy.bool_(True)], "argument b: expected a bool, got numpy.bool"),
    ([1, 0.5, None], "argument b: expected a bool, got NoneType"),
]


def test_numbers(folder: Path) -> None:
    for run in made(NUMBERS, folder).values():
        for n, f, b in ((3, 0.5, True), (-(1 << 63), math.inf, False), ((1 << 63) - 1, -0.0, True)):
            assert tuple(run([n, f, b])) == (n, f, b)
        for args, message in NUMBERS_WRONG:
            with pytest.raises(ExecutionError, match=re.escape(f"[WIR926] {message}")):
                run(list(args))


def test_what_is_guarded_is_not_looked_at(folder: Path) -> None:
    """The caller has checked it: an engine would only repeat it. Every engine checks results."""
    guarded = ir.Guarded(params=frozenset({"x"}))
    for engine, run in engines(artifact_of(FIXED), folder, guarded).items():
        with pytest.raises(ExecutionError, match=r"%y is declared as f32, but .* f64"):
            pytest.fail(f"{engine}: {run([X.double()])}")
    for engine, run in engines(artifact_of(DYNAMIC), folder, guarded).items():
        with pytest.raises(ExecutionError, match="argument y: expected i64"):
            pytest.fail(f"{engine}: {run([X.double(), X])}")


MUTATIONS: dict[str, Callable[[Tensor], Any]] = {
    "double": lambda x: x.double(),
    "int": lambda x: x.int(),
    "meta": lambda x: x.to("meta"),
    "turn": lambda x: x.t() if x.dim() == 2 else x[None],
    "row": lambda x: x[0] if x.dim() and x.shape[0] else x,
    "add": lambda x: torch.cat([x, x]) if x.dim() else x[None],
    "step": lambda x: x[::2] if x.dim() else x,
    "shift": lambda x: x.clone().contiguous(),
    "sparse": lambda x: x.to_sparse(),
    "list": lambda x: x.tolist() if x.device.type == "cpu" else x,
    "class": lambda x: x.as_subclass(Plain),
    "numpy": lambda x: x.numpy() if x.device.type == "cpu" and not x.is_sparse else x,
    "parameter": lambda x: nn.Parameter(x, requires_grad=False),
}


@pytest.fixture(scope="module")
def dynamic(folder: Path) -> dict[str, Run]:
    return made(DYNAMIC, folder)


@settings(deadline=None)
@given(
    rows=st.integers(1, 4),
    which=st.booleans(),
    steps=st.lists(st.sampled_from(sorted(MUTATIONS)), min_size=1, max_size=3),
)
def test_a_mutated_input_runs_as_in_the_interpreter_or_is_refused(
    dynamic: dict[str, Run], rows: int, which: bool, steps: list[str]
) -> None:
    args: list[Any] = [torch.rand(rows, 6), torch.arange(2 * rows)]
    try:
        for step in steps:
            args[which] = MUTATIONS[step](args[which])
    except (RuntimeError, TypeError, AttributeError, NotImplementedError):
        return  # torch does not know this one either
    outcomes = {}
    for name, run in dynamic.items():
        try:
            outcomes[name] = ("", [torch.as_tensor(r).as_subclass(Tensor).tolist() for r in run(list(args))])
        except ExecutionError as error:
            outcomes[name] = (error.code, [])
            assert error.code in ("WIR921", "WIR926"), (name, error)
    assert len({repr(o) for o in outcomes.values()}) == 1, outcomes


ENDED = """symbol s0 : int backed [1, 64]

func @main(%x: f32[s0], %y: f32[2*s0]) {
  drop %y
  define s0 = size(%x, 0)
  return %x, s0
}
"""


def test_an_input_that_has_ended_is_not_looked_at_again(folder: Path) -> None:
    for run in made(ENDED, folder).values():
        found, size = run([torch.ones(3), torch.ones(6)])
        assert (found.tolist(), size) == ([1.0] * 3, 3)


LATE = """symbol s0 : int backed [1, 64]
symbol s1 : int backed [1, 64]

func @main(%n: int, %x: f32[s1, s0]) {
  define s0 = item(%n)
  define s1 = size(%x, 0)
  return %x, s0
}
"""


def test_a_layout_is_looked_at_when_all_its_symbols_are_known(folder: Path) -> None:
    for name, run in made(LATE, folder).items():
        assert run([4, torch.ones(3, 4)])[0].shape == (3, 4), name
        with pytest.raises(Exception, match="argument x") as caught:
            run([4, torch.ones(3, 5)])
        assert code_of(caught.value) == "WIR921", name


SEEDS = """wir 0.5
target cuda

extern "aten::neg(Tensor self) -> Tensor"

kernel cpp @k entry "k" (read i64* x) {{{
extern "C" void k(const long* x) {}
}}}

func @main(%seed: i64[], %many: i64[1], %seen: i64[], %idle: i64[]) {
  %a = call aten::neg(%seed) : i64[]
  %b = call aten::neg(%many) : i64[1]
  %c = call aten::neg(%seen) : i64[]
  launch @k(%seen)
  drop %seed
  drop %many
  drop %seen
  drop %idle
  return %a, %b, %c
}
"""


def test_numbers_that_only_operators_take_may_lie_on_the_cpu() -> None:
    """Attention operators create their seeds there, although their meta functions declare the device."""
    program = parse_program(SEEDS)
    wanted = {value.name: want for value, want in input_checks(program).entry}
    caller = TorchCaller(torch)
    check_inputs(caller, [wanted["seed"]], [torch.tensor(3)])
    with pytest.raises(ExecutionError, match=r"expected i64\[\] on cuda or cpu, got f32\[\] on cpu"):
        check_inputs(caller, [wanted["seed"]], [torch.tensor(3.0)])
    for name in ("many", "seen", "idle"):
        value = torch.tensor([3]) if name == "many" else torch.tensor(3)
        with pytest.raises(ExecutionError, match=r"on cuda, got i64\[1?\] on cpu"):
            check_inputs(caller, [wanted[name]], [value])
    assert described(expectation(wanted["seed"])) == wanted["seed"]
    assert "strides=(), or_cpu=True)" in str(py_wrapper.emit(bare_artifact(program)))
