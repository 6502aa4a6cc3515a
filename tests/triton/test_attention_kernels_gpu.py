"""Attention by kernels of the program on a device, against torch's operators there."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import py_wrapper
from inductor_frontend import capture
from tests.triton.attention_programs import Case, expected, inputs, with_kernels
from wrapper_ir import ir
from wrapper_ir.artifact import bare_artifact
from wrapper_ir_passes.pipeline import run_on_artifact

pytestmark = pytest.mark.gpu

HALF, BRAIN = torch.float16, torch.bfloat16
CASES = (
    Case(rows=33, keys=65, width=24, value_width=40, scale=0.3),
    Case(rows=100, keys=100, width=64, layout="rows", batch=2),
    Case(rows=50, keys=20, causal=True),
    Case(rows=20, keys=50, causal=True),
    Case(rows=20, keys=70, mask="add", batch=2),
    Case(rows=20, keys=70, mask="hidden"),
    Case(rows=20, keys=70, mask="lowest"),
    Case(rows=64, keys=64, width=256),
    Case(rows=9, keys=33, batch=2, dynamic=True),
    Case(rows=40, keys=33, batch=2, dynamic=True, layout="rows", causal=True),
    *(
        Case(rows=rows, keys=rows, width=width, heads=12, kv_heads=12, dtype=dtype, causal=causal, operator="flash")
        for rows, width, causal in ((64, 64, True), (1024, 64, True), (1000, 128, False), (333, 256, True))
        for dtype in (HALF, BRAIN)
    ),
    Case(rows=128, keys=128, width=64, layout="packed", dtype=BRAIN, operator="flash", causal=True),
    Case(rows=64, keys=64, width=64, heads=12, kv_heads=12, dtype=BRAIN, operator="cudnn", mask="rows"),
    Case(rows=1024, keys=1024, width=64, heads=12, kv_heads=12, dtype=BRAIN, operator="cudnn", mask="rows"),
    Case(rows=256, keys=256, width=64, heads=32, kv_heads=8, dtype=BRAIN, operator="flash", causal=True),
    *(
        Case(rows=1, keys=keys, width=64, heads=32, kv_heads=8, dtype=BRAIN, operator="cudnn", mask="keys")
        for keys in (64, 512, 1000, 4096)
    ),
    Case(rows=1, keys=4096, width=128, heads=32, kv_heads=8, dtype=HALF, operator="flash"),
)  # fmt: skip


def every_config(case: Case) -> Iterator[Callable[..., Any]]:
    """Yields functions of the program, one for each config of its first kernel."""
    program = with_kernels(case, arch=_arch())
    first, *rest = program.kernels
    assert isinstance(first, ir.TritonKernel)
    for config in first.configs:
        kernels = (dataclasses.replace(first, configs=(config,)), *rest)
        yield py_wrapper.compile(bare_artifact(dataclasses.replace(program, kernels=kernels)))


def _arch() -> str:
    major, minor = torch.cuda.get_device_capability()
    return f"sm_{major}{minor}"


@pytest.mark.parametrize("case", CASES, ids=str)
def test_each_config(case: Case) -> None:
    tensors = inputs(case, "cuda")
    wanted = expected(case, tensors)
    tolerance = {torch.float32: 2e-5, HALF: 2e-3, BRAIN: 2e-2}[case.dtype]
    for call in every_config(case):
        torch.testing.assert_close(call(*tensors)[0], wanted, rtol=tolerance, atol=tolerance)


class Model(nn.Module):
    """Two layers of attention."""

    def __init__(self) -> None:
        super().__init__()
        self.project, self.out = nn.Linear(128, 384), nn.Linear(128, 128)

    def forward(self, x: Tensor) -> Tensor:
        for _ in range(2):
            q, k, v = (p.unflatten(-1, (4, 32)).transpose(-3, -2) for p in self.project(x).chunk(3, dim=-1))
            found = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = self.out(found.transpose(-3, -2).flatten(-2))
        return x


@pytest.mark.parametrize(
    "passes", ["attention-kernels", "attention-kernels,cuda-graphs{own_memory=true},plan-memory"]
)
@pytest.mark.parametrize("dtype", [torch.float32, BRAIN], ids=str)
def test_models(dtype: torch.dtype, passes: str) -> None:
    torch.manual_seed(0)
    model, x = Model().to(dtype).eval(), torch.randn(2, 48, 128).to(dtype)
    artifact = run_on_artifact(capture(model, (x,), target=f"cuda:{_arch()}"), passes)
    assert not any("scaled_dot_product" in e.name for e in artifact.program.externs)
    call, model, x = py_wrapper.compile(artifact), model.cuda(), x.cuda()
    tolerance = 1e-4 if dtype == torch.float32 else 3e-2
    for _ in range(4):
        x = x + 0.25
        torch.testing.assert_close(call(x), model(x), rtol=tolerance, atol=tolerance)
