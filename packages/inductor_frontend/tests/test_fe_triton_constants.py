"""Constants that launches of a model's own kernels pass: 1, 1.0 and True are three values, and tuples are
allowed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from packages.inductor_frontend.tests.own_kernel_source import load, own

import fx_converter
import py_wrapper
from inductor_frontend import CaptureError, CaptureOptions, capture
from wrapper_ir import ir
from wrapper_ir.artifact import Artifact
from wrapper_ir.artifact.file import load as load_artifact
from wrapper_ir.artifact.file import save
from wrapper_ir.json import from_json, to_json
from wrapper_ir.json.kernel_hash import content_hash
from wrapper_ir.plugins.registry import machine
from wrapper_ir.text import parse_program, print_program
from wrapper_ir_runtime.interp import call

pytest.importorskip("triton", reason="the kernels are Triton's")

X = torch.arange(10.0)
TEXT = """
import torch
import triton
import triton.language as tl


@triton.jit
def flagged(x, out, n, flag, BLOCK: tl.constexpr):
    o = tl.arange(0, BLOCK)
    v = tl.load(x + o, mask=o < n)
    if flag:
        v = v * 2
    tl.store(out + o, v, mask=o < n)


@triton.jit
def added(x, out, n, number, BLOCK: tl.constexpr):
    o = tl.arange(0, BLOCK)
    tl.store(out + o, tl.load(x + o, mask=o < n) + number, mask=o < n)


@triton.jit
def known(x, out, n, V: tl.constexpr, BLOCK: tl.constexpr):
    o = tl.arange(0, BLOCK)
    v = tl.load(x + o, mask=o < n)
    if V is True:
        v = v + 100
    else:
        v = v + V
    tl.store(out + o, v, mask=o < n)


@triton.jit
def pair(x, out, n, T: tl.constexpr, BLOCK: tl.constexpr):
    o = tl.arange(0, BLOCK)
    tl.store(out + o, tl.load(x + o, mask=o < n) * T[0] + T[1], mask=o < n)


def launched(kernel, *values, grid=(1,)):
    def model(x):
        outs = [torch.empty_like(x) for _ in values]
        for out, value in zip(outs, values):
            kernel[grid](x, out, 10, value, 16)
        return tuple(outs)

    return model


def in_place(x):
    flagged[(1,)](x, x, 10, True, 16)
    return x + 0
"""


@pytest.fixture(scope="module")
def module(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    return load(tmp_path_factory.mktemp("own"), TEXT)


def captured(model: Callable[..., Any]) -> Artifact:
    return capture(model, (X.clone(),), options=CaptureOptions(cpu_kernels="triton"))


def runs(artifact: Artifact, folder: Path) -> dict[str, Callable[..., Any]]:
    """Runs the program in every engine and form that runs Triton kernels on a CPU."""
    save(artifact, folder / "a.wir")
    module = fx_converter.convert(artifact)
    fx_converter.save(module, folder / "a.fx")
    return {
        "interpreter": lambda x: call(artifact, machine("torch"), (x,), {}),
        "python": py_wrapper.compile(artifact),
        "python of a file": py_wrapper.compile(load_artifact(folder / "a.wir")),
        "fx": module,
        "fx of a file": fx_converter.load(folder / "a.fx"),
    }


def check(artifact: Artifact, folder: Path, *expected: torch.Tensor) -> None:
    text = print_program(artifact.program)
    assert print_program(parse_program(text)) == text
    assert parse_program(text) == artifact.program == from_json(to_json(artifact.program))
    for name, run in runs(artifact, folder).items():
        for got, want in zip(run(X.clone()), expected, strict=True):
            torch.testing.assert_close(got, want, rtol=0, atol=0, msg=name)


class TestArguments:
    """Equal constants of different types, in both orders: the first one must not determine the type of the
    others."""

    def test_booleans_in_place(self, module: ModuleType) -> None:
        """The first number of this program is the boolean; those of the grid follow."""
        artifact = captured(module.in_place)
        (launch,) = (op for op in artifact.program.main.ops_of(ir.Launch) if op.grid)
        assert [str(a) for a in launch.args[-1:]] == ["true"]
        assert [str(g) for g in launch.grid] == ["1", "1", "1"]
        torch.testing.assert_close(py_wrapper.compile(artifact)(X.clone()), X * 2)

    @pytest.mark.parametrize("values", [(True, 1, False, 0), (1, True, 0, False)], ids=str)
    def test_booleans(self, module: ModuleType, values: tuple[object, ...], tmp_path: Path) -> None:
        artifact = captured(module.launched(module.flagged, *values))
        texts = {str(a) for op in artifact.program.main.ops_of(ir.Launch) for a in op.args[3:]}
        assert texts == {"true", "false", "0"}  # 1 itself is a constant
        check(artifact, tmp_path, *(X * 2 if value else X for value in values))

    @pytest.mark.parametrize("values", [(2, 2.0), (2.0, 2), (1, 1.0, True), (True, 1.0, 1)], ids=str)
    def test_numbers(self, module: ModuleType, values: tuple[float, ...], tmp_path: Path) -> None:
        artifact = captured(module.launched(module.added, *values))
        passed_by_value = [str(op.args[3]) for op in artifact.program.main.ops_of(ir.Launch) if op.args[3:]]
        assert passed_by_value == [
            str(value).lower() for value in values if type(value) is not int or value != 1
        ]
        check(artifact, tmp_path, *(X + value for value in values))

    def test_a_grid_of_fractions(self, module: ModuleType) -> None:
        with pytest.raises(CaptureError, match=r"FE303.*grid"):
            captured(module.launched(module.added, 2, grid=(1.0,)))


class TestConstants:
    @pytest.mark.parametrize("values", [(True, 1, 1.0), (1.0, 1, True)], ids=str)
    def test_of_other_classes(self, module: ModuleType, values: tuple[float, ...], tmp_path: Path) -> None:
        artifact = captured(module.launched(module.known, *values))
        assert [dict(k.constants)["V"] for k in own(artifact.program)] == list(values)
        assert len({content_hash(k) for k in own(artifact.program)}) == len(values)
        check(artifact, tmp_path, *(X + 100 if type(value) is bool else X + 1 for value in values))

    @pytest.mark.parametrize("value", [(2, 3), (0.5, True)], ids=str)
    def test_tuples(self, module: ModuleType, value: tuple[float, float], tmp_path: Path) -> None:
        artifact = captured(module.launched(module.pair, value))
        assert [dict(k.constants)["T"] for k in own(artifact.program)] == [value]
        check(artifact, tmp_path, X * value[0] + value[1])

    def test_infinity(self, module: ModuleType, tmp_path: Path) -> None:
        check(captured(module.launched(module.known, float("inf"))), tmp_path, X + float("inf"))

    @pytest.mark.parametrize("value", [[1, 2], (1, (2, 3))], ids=str)
    def test_refused(self, module: ModuleType, value: object) -> None:
        with pytest.raises(CaptureError, match=r"FE303.* T = .* no typed form"):
            captured(module.launched(module.pair, value))
