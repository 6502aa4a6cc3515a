"""Weights of convolutions are stored channels-last, and behave as the model's in each emitter."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch._inductor import config as inductor_config

import cpp_wrapper
from cpp_wrapper import ConstantError
from inductor_frontend import capture
from tests.cpp.cpp_case import FAST
from wrapper_ir import ir
from wrapper_ir.artifact import Artifact
from wrapper_ir.artifact.file import load, save
from wrapper_ir.expr import Int
from wrapper_ir.plugins.registry import emitter, machine
from wrapper_ir_runtime.interp import call

ROWS = torch.export.Dim("rows", min=2, max=64)


class Convolutions(nn.Module):
    """A plain, a depthwise and a transposed convolution, two that share a weight, and one of one dimension."""

    kernel: Tensor

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first = nn.Conv2d(3, 6, 3, padding=1)
        self.depthwise = nn.Conv2d(6, 6, 3, groups=6)
        self.back = nn.ConvTranspose2d(6, 6, 3)
        self.tied = nn.Conv2d(6, 6, 3)
        self.again = nn.Conv2d(6, 6, 3)
        self.again.weight = self.tied.weight
        self.line = nn.Conv1d(6, 2, 3)
        self.scaled = nn.Conv2d(6, 6, 3)
        self.register_buffer("kernel", torch.randn(6, 6, 3, 3))

    def forward(self, x: Tensor) -> Tensor:
        """All convolutions; `scaled.weight` has another use, and `kernel` is written."""
        self.kernel.mul_(1.0)
        y = self.back(self.depthwise(self.first(x)))
        y = self.again(self.tied(y))
        y = self.scaled(torch.nn.functional.conv2d(y, self.kernel, padding=1)) * self.scaled.weight.sum()
        line: Tensor = self.line(y.flatten(2))
        return line


X = torch.randn(5, 3, 12, 12)


@pytest.fixture(scope="module")
def artifact() -> Artifact:
    return capture(Convolutions().eval(), (X,), dynamic_shapes=({0: ROWS},))


def expected(x: Tensor, **changed: Tensor) -> Tensor:
    model = Convolutions().eval()
    model.load_state_dict({name.replace("__", "."): t for name, t in changed.items()}, strict=False)
    with torch.no_grad():
        result: Tensor = model(x)
    return result


def test_only_weights_are_channels_last(artifact: Artifact) -> None:
    """Tied weights, and those with other uses, keep their layout."""
    types = {c.value.name: c.value.type for c in artifact.program.constants}
    strides = {n: t.strides for n, t in types.items() if isinstance(t, ir.TensorType) and len(t.sizes) == 4}
    last = {name for name, stride in strides.items() if stride[1] == Int(1)}
    assert last == {"first.weight", "back.weight"}


def test_interpreter(artifact: Artifact) -> None:
    torch.testing.assert_close(call(artifact, machine("torch"), (X,)), expected(X), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ["python", "fx"])
def test_saved_programs(artifact: Artifact, name: str, tmp_path: Path) -> None:
    save(artifact, tmp_path / "m.wir")
    run, x = emitter(name).compile(load(tmp_path / "m.wir")), X[:3]
    torch.testing.assert_close(run(x), expected(x), rtol=1e-4, atol=1e-4)


def test_updates_of_a_library(artifact: Artifact, tmp_path: Path) -> None:
    program, other = (
        cpp_wrapper.load(cpp_wrapper.build(artifact, tmp_path / "m.so", FAST)),
        torch.randn(6, 3, 3, 3),
    )
    torch.testing.assert_close(program(X), expected(X), rtol=1e-4, atol=1e-4)
    want = expected(X, first__weight=other)
    program.update_constants({"first.weight": other})
    torch.testing.assert_close(program(X), want, rtol=1e-4, atol=1e-4)
    with pytest.raises(ConstantError, match="CPP530"):
        program.update_constants({"first.weight": other}, is_borrowed=True)
    last = other.contiguous(memory_format=torch.channels_last)
    program.update_constants({"first.weight": last}, is_borrowed=True)
    torch.testing.assert_close(program(X), want, rtol=1e-4, atol=1e-4)


def test_the_model_keeps_its_weights() -> None:
    model = Convolutions().eval()
    capture(model, (X,))
    assert all(w.is_contiguous() for w in model.state_dict().values())


def test_no_copy_without_layout_optimization() -> None:
    with inductor_config.patch("layout_optimization", False):
        program = capture(nn.Conv2d(3, 4, 3).eval(), (X,)).program
    [weight] = [c.value.type for c in program.constants if c.value.name == "weight"]
    assert isinstance(weight, ir.TensorType)
    assert weight.strides == (Int(27), Int(9), Int(3), Int(1))
