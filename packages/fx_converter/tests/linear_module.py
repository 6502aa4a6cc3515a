"""A matmul with a transposed constant weight and a constant bias, for tests of weights and of `forward`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, fx

import fx_converter
import wrapper_ir
from fx_converter import FxOptions
from fx_converter.kernels import KernelCalls
from fx_converter.options import Convention
from wrapper_ir import ir
from wrapper_ir.artifact import Artifact, TensorData, bare_artifact

PROGRAM = """wir 0.5
target cpu

extern "aten::mm.out(Tensor self, Tensor mat2, *, Tensor(a!) out) -> Tensor(a!)"
extern "aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor"

const %weight : f32[2, 3] sha256 "{weight}"
const %bias : f32[2] sha256 "{bias}"

func @main(%x: f32[4, 3]) {{
  %turned = view %weight : f32[3, 2]{{1, 3}}
  %matmul = alloc f32[4, 2]
  call aten::mm.out(%x, %turned, out=%matmul)
  %sum = call aten::add.Tensor(%matmul, %bias) : f32[4, 2]
  free %matmul.s
  return %sum
}}
"""
WEIGHT, BIAS = torch.arange(6.0).view(2, 3), torch.tensor([10.0, 20.0])
X = torch.arange(12.0).view(4, 3)


def artifact() -> Artifact:
    """With separate memory for each constant."""
    data = {
        name: TensorData(ir.DType.F32, memoryview(held.numpy().tobytes()))
        for name, held in (("weight", WEIGHT), ("bias", BIAS))
    }
    text = PROGRAM.format(**{name: held.sha256() for name, held in data.items()})
    return bare_artifact(wrapper_ir.parse_program(text), data)


def made(form: KernelCalls = "direct", convention: Convention = "flat") -> fx.GraphModule:
    """The artifact's graph module."""
    return fx_converter.convert(artifact(), FxOptions(kernel_calls=form, convention=convention))


def want(weight: Tensor = WEIGHT, bias: Tensor = BIAS) -> Tensor:
    """Returns the module's result for X with these weights."""
    return X @ weight.T + bias


def same(module: Callable[..., Any], expected: Tensor) -> None:
    """Returns whether the module has this result for X."""
    with torch.no_grad():
        (result,) = module(X)
    torch.testing.assert_close(result, expected)
