"""Convolutions that are fused with the ops that follow them: which ops, the resulting graph, and its results."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, fx, nn
from torch._inductor.decomposition import select_decomp_table
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn import functional as F

import py_wrapper
from inductor_frontend import CaptureOptions, capture
from wrapper_ir import ir
from wrapper_ir.operators.native import ACTIVATIONS, FUSED_CONVOLUTION
from wrapper_ir.text import print_program
from wrapper_ir_torch.fused_convolutions import fuse_convolutions

FUSED = CaptureOptions(fused_convolutions=True)
X, W, OTHER = torch.randn(2, 3, 9, 9), torch.randn(8, 3, 3, 3), torch.randn(2, 8, 7, 7)
Function = Callable[..., Any]  # Any: of tensors, gives tensors


def convolved(x: Tensor, w: Tensor, **options: Any) -> Tensor:
    return F.conv2d(x, w, **options)


def graph_of(function: Function, *args: Tensor) -> fx.GraphModule:
    traced: fx.GraphModule = make_fx(function, select_decomp_table(), tracing_mode="fake")(*args)
    return traced


def fused_calls(gm: fx.GraphModule) -> list[fx.Node]:
    """Fuses the convolutions of a graph; returns the calls of the fused operator."""
    fuse_convolutions(gm)
    gm.graph.lint()
    return [node for node in gm.graph.nodes if str(node.target).startswith("wrapper_ir.fused_convolution")]


ACTIVATED: dict[str, tuple[Function, tuple[object, ...]]] = {
    "relu": (F.relu, ("relu", 0.0, 0.0)),
    "relu6": (F.relu6, ("clamp", 0.0, 6.0)),
    "hardtanh": (lambda y: F.hardtanh(y, -0.5, 2.0), ("clamp", -0.5, 2.0)),
    "clamp": (lambda y: y.clamp(-1, 1), ("clamp", -1.0, 1.0)),
    "hardswish": (F.hardswish, ("hardswish", 0.0, 0.0)),
    "sigmoid": (torch.sigmoid, ("sigmoid", 0.0, 0.0)),
    "silu": (F.silu, ("silu", 0.0, 0.0)),
    "silu by sigmoid": (lambda y: y * y.sigmoid(), ("silu", 0.0, 0.0)),
    "gelu": (F.gelu, ("gelu", 0.0, 0.0)),
}


@pytest.mark.parametrize("name", ACTIVATED)
@pytest.mark.parametrize("adds", [False, True])
def test_activations(name: str, adds: bool) -> None:
    """An activation alone, and after a residual; the graph computes the same."""
    activate, ends = ACTIVATED[name]

    def model(x: Tensor, w: Tensor, other: Tensor) -> Tensor:
        y = convolved(x, w)
        result: Tensor = activate(other + y if adds else y)
        return result

    gm = graph_of(model, X, W, OTHER)
    (call,) = fused_calls(gm)
    assert call.args[-3:] == ends
    assert ends[0] in ACTIVATIONS
    assert (call.args[8] is not None) == adds
    assert sum(node.op == "call_function" for node in gm.graph.nodes) == 1
    torch.testing.assert_close(gm(X, W, OTHER), model(X, W, OTHER))


class Norms(nn.Module):
    """Batch norms of a convolution with and without a bias, a residual, and convolutions whose result is read twice."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.norm = nn.Conv2d(3, 16, 3, 2, 1, bias=False), nn.BatchNorm2d(16)
        self.second, self.other = nn.Conv2d(16, 16, 3, padding=1, groups=16), nn.BatchNorm2d(16)
        self.last = nn.Conv2d(16, 8, 1)
        for norm in (self.norm, self.other):
            norm.running_mean, norm.running_var = torch.rand(16) - 0.5, torch.rand(16) + 0.5
            nn.init.uniform_(norm.bias)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Returns the activation, and a product of numbers before it."""
        y = F.relu6(self.norm(self.first(x)))
        y = F.relu(self.other(self.second(y)) + y)
        z = self.last(y)
        return F.relu(z), z * 2


@pytest.mark.parametrize("dynamic", [False, True])
def test_batch_norms(dynamic: bool) -> None:
    """Two of three convolutions are fused; constants stay the model's, and a batch of any size runs."""
    model, x = Norms().eval(), torch.randn(3, 3, 16, 16)
    shapes = ({0: torch.export.Dim("batch", min=2, max=9)},) if dynamic else None
    with torch.no_grad():
        artifact = capture(model, (x,), dynamic_shapes=shapes, options=FUSED)
        lines = print_program(artifact.program).splitlines()
        calls = [line for line in lines if f" = call {FUSED_CONVOLUTION.name}(" in line]
        assert [re.findall(r'"(\w+)", ([\d.]+), ([\d.]+)\)', call) for call in calls] == [
            [("clamp", "0.0", "6.0")],
            [("relu", "0.0", "0.0")],
        ]
        x = torch.randn(5, 3, 16, 16) if dynamic else x
        for got, want in zip(py_wrapper.compile(artifact)(x), model(x), strict=True):
            torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5)


def test_an_option_is_off_by_default() -> None:
    program = capture(Norms().eval(), (torch.randn(2, 3, 16, 16),)).program
    assert not any(op.target == FUSED_CONVOLUTION.name for op in program.ops_of(ir.CallExtern))


LEFT: dict[str, Function] = {
    "nothing follows": lambda x, w, o: convolved(x, w),
    "it is read twice": lambda x, w, o: (y := convolved(x, w), y.relu()),
    "an inner value is read twice": lambda x, w, o: (y := convolved(x, w), z := y.sigmoid(), y * z, z + 1)[
        2:
    ],
    "it is transposed": lambda x, w, o: F.conv_transpose2d(x, w.transpose(0, 1)).relu(),
    "of doubles": lambda x, w, o: convolved(x.double(), w.double()).relu(),
    "a factor for each pixel": lambda x, w, o: convolved(x, w) * o,
    "a factor for each row": lambda x, w, o: convolved(x, w) * o[:1, :1, :, :1],
    "a larger operand": lambda x, w, o: convolved(x[:1], w) + o,
    "a factor of the sum": lambda x, w, o: torch.add(convolved(x, w), o, alpha=2),
    "another activation": lambda x, w, o: convolved(x, w).tanh(),
    "a constant minus it": lambda x, w, o: o[:1, :, :1, :1] - convolved(x, w),
}


@pytest.mark.parametrize("name", LEFT)
def test_what_stays(name: str) -> None:
    gm = graph_of(LEFT[name], X, W, OTHER)
    before = str(gm.graph)
    assert not fused_calls(gm)
    assert str(gm.graph) == before
