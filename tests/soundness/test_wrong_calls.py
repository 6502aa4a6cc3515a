"""Every engine refuses calls with wrong arguments with a code; errors of operators have a place."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import fx_converter
import inductor_frontend
import py_wrapper
from fx_converter import FxOptions
from tests.common.input_engines import artifact_of, engines
from wrapper_ir.artifact import Artifact
from wrapper_ir.errors import ArgumentError, code_of
from wrapper_ir.plugins.registry import machine
from wrapper_ir_runtime.interp import Interpreter

X = torch.arange(4.0)
TEXT = """
extern "aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor"
extern "aten::mm(Tensor self, Tensor mat2) -> Tensor"

func @main(%x: f32[4], %y: f32[4]) {
  %r = call aten::add.Tensor(%x, %y) : f32[4]
  return %r
}
"""
FAILS = TEXT.replace("aten::add.Tensor(%x, %y)", "aten::mm(%x, %y)")
CALLS: dict[str, tuple[tuple[Any, ...], dict[str, Any], str]] = {
    "few": (([X, X],), {}, "y"),
    "none": ((), {}, "xs"),
    "many": (([X, X], X, X), {}, "arguments"),
    "unknown": (([X, X],), {"zzz": X}, r"zzz|y"),
    "twice": (([X, X], X), {"y": X}, "y"),
    "short list": (([X], X), {}, "argument xs"),
    "long list": (([X, X, X], X), {}, "argument xs"),
    "no list": ((X, X), {}, "argument xs"),
    "a number": ((3, X), {}, "argument xs"),
}


def _add(xs: list[Tensor], y: Tensor) -> Tensor:
    return xs[0] + xs[1] + y


@pytest.fixture(scope="module")
def captured() -> Artifact:
    return inductor_frontend.capture(_add, ([X, X], X))


ENGINES: dict[str, Callable[[Artifact], Callable[..., Any]]] = {
    "interpreter": lambda artifact: Interpreter(artifact, machine("torch")),
    "python": py_wrapper.compile,
    "fx": fx_converter.compile,
    "fx, module": fx_converter.convert,
}


@pytest.mark.parametrize("engine", ENGINES)
def test_models(engine: str, captured: Artifact) -> None:
    call = ENGINES[engine](captured)
    for name, (args, kwargs, match) in CALLS.items():
        with pytest.raises(ArgumentError, match=rf"WIR926.*({match})"):
            call(*args, **kwargs)
        assert issubclass(ArgumentError, TypeError), name
    assert torch.equal(call([X, X], X), 3 * X)


def test_flat_modules(captured: Artifact) -> None:
    module = fx_converter.convert(captured, FxOptions(convention="flat"))
    for args, kwargs in (((X, X), {}), ((X,) * 4, {}), ((X,) * 3, {"zzz": X})):
        with pytest.raises(ArgumentError, match="WIR926"):
            module(*args, **kwargs)


@pytest.mark.parametrize("engine", [py_wrapper.compile, fx_converter.compile])
def test_boxed(engine: Callable[[Artifact], Any]) -> None:
    boxed = engine(artifact_of(TEXT)).boxed
    for given, match in (
        ([X], "missing: y"),
        ([], "missing: x, y"),
        ([X] * 3, "got 3"),
        ((X, X), "list"),
        (3, "list"),
    ):
        with pytest.raises(ArgumentError, match=match):
            boxed(given)
    many = "".join(f"%a{i}: f32[4], " for i in range(60))
    wide = artifact_of(TEXT.replace("%x: f32[4]", f"{many}%x: f32[4]"))
    with pytest.raises(ArgumentError, match=r"expected 62, got 61; missing: y"):
        engine(wide).boxed([X] * 61)


def test_errors_of_operators_have_code_and_place(tmp_path: Path) -> None:
    for name, call in engines(artifact_of(FAILS), tmp_path).items():
        with pytest.raises(RuntimeError, match="matri") as caught:
            call([X, X])
        assert code_of(caught.value) == "WIR927", name
        assert len(caught.value.__notes__) == 1, name
        assert "mm" in caught.value.__notes__[0], name
