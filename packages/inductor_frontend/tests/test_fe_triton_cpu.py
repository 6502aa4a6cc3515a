"""Triton kernels over CPU tensors, run by Triton's interpreter: results equal those of eager mode."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch._inductor import config as inductor_config

from inductor_frontend import CaptureOptions, capture
from tests.common import zoo
from wrapper_ir import ir
from wrapper_ir.errors import WirError
from wrapper_ir.plugins.registry import kernel_runtime

pytest.importorskip("triton", reason="Inductor writes Triton kernels only where triton is installed")
try:
    kernel_runtime("triton")
except WirError:
    pytest.skip("no runtime for Triton kernels is installed", allow_module_level=True)

Check = Callable[..., None]
OPTIONS = CaptureOptions(cpu_kernels="triton")

MODELS: dict[str, tuple[Callable[..., Any], tuple[torch.Tensor, ...]]] = {  # Any: what models return
    "pointwise": (lambda x, y: (x * y + 1).relu().exp(), (torch.randn(20, 30), torch.randn(30))),
    "reductions": (lambda x: (x.sum(), x.amax(0), x.softmax(-1), x.var(-1)), (torch.randn(7, 3000),)),
    "scans": (lambda x: (x.cumsum(-1), x.cumprod(0)), (torch.randn(5, 40),)),
    "transposed": (lambda a, b: a + b.t(), (torch.randn(30, 20), torch.randn(20, 30))),
    "concatenation": (lambda a, b: torch.cat([a + 1, b * 2]), (torch.randn(3, 4), torch.randn(5, 4))),
    "gather": (lambda x, i: x[i] * 2, (torch.randn(9, 4), torch.randint(0, 9, (6,)))),
    "in place": (lambda x, y: x.add_(y).mul(2), (torch.randn(9, 4), torch.randn(9, 4))),
    "scatter": (
        lambda x, i, s: x.scatter_add(0, i, s),
        (torch.randn(5, 4), torch.randint(0, 5, (3, 4)), torch.randn(3, 4)),
    ),
    "numbers in tensors": (
        lambda x, a, b, c: ((x + a) * b, x.where(c, -x)),
        (torch.randn(9), torch.tensor(2.5), torch.tensor(3), torch.tensor(True)),
    ),
    "norm": (nn.LayerNorm(64).eval(), (torch.randn(4, 64),)),
    "matmul": (nn.Sequential(nn.Linear(16, 32), nn.GELU()).eval(), (torch.randn(4, 16),)),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_equals_eager(name: str, equals_eager: Check) -> None:
    model, args = MODELS[name]
    artifact = capture(model, args, options=OPTIONS)
    assert artifact.program.kernels
    assert all(isinstance(k, ir.TritonKernel) for k in artifact.program.kernels)
    equals_eager(artifact, model, *args)


def test_other_sizes(equals_eager: Check) -> None:
    model = nn.Sequential(nn.Linear(16, 8), nn.Softmax(-1)).eval()
    dim = torch.export.Dim("batch", max=500)
    artifact = capture(model, (torch.randn(4, 16),), dynamic_shapes=({0: dim},), options=OPTIONS)
    for batch in (1, 3, 300):
        equals_eager(artifact, model, torch.randn(batch, 16))


def test_scratch_memory(equals_eager: Check) -> None:
    """Split scans communicate through zeroed scratch memory: each program waits for its predecessors."""
    model, x = lambda x: x.cumsum(0), torch.randn(20_000)
    artifact = capture(model, (x,), options=OPTIONS)
    assert [k.heuristic for k in artifact.program.kernels if isinstance(k, ir.TritonKernel)] == ["split_scan"]
    equals_eager(artifact, model, x.abs() / 100)


def test_combined_kernels(equals_eager: Check) -> None:
    def model(a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return a + 1, b * 2

    args = torch.randn(10), torch.randn(30, 20)
    with inductor_config.patch(combo_kernels=True):
        artifact = capture(model, args, options=OPTIONS)
    equals_eager(artifact, model, *args)


def test_a_transformer(equals_eager: Check) -> None:
    case = zoo.gpt2(layers=1)
    artifact = capture(case.model, case.args, case.kwargs, options=OPTIONS)
    equals_eager(artifact, case.model, *case.args, **(case.kwargs or {}))
