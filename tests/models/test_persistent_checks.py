"""Persistent buffers of models with dynamic sizes: what is proved of their slots is not checked at run time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim

from inductor_frontend import CaptureOptions, capture
from wrapper_ir import ir
from wrapper_ir.analysis.memo import Analyses
from wrapper_ir_lowering import LoweringOptions, Plan, lower, steps
from wrapper_ir_passes.memory.persistent_pools import with_persistent_pools

pytestmark = pytest.mark.slow


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table, self.heads, self.head = nn.Embedding(50, 16), nn.Linear(16, 48), nn.Linear(16, 50)

    def forward(self, tokens: Tensor) -> Any:
        x = self.table(tokens)
        q, k, v = self.heads(x).chunk(3, -1)
        return self.head(x + (q @ k.transpose(1, 2)).softmax(-1) @ v).softmax(-1)


def _convolutions() -> nn.Module:
    first, second = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 8, 3, stride=2, padding=1)
    return nn.Sequential(first, nn.ReLU(), second, nn.BatchNorm2d(8), nn.AdaptiveAvgPool2d(1))


def _normalized() -> nn.Module:
    return nn.Sequential(nn.Linear(16, 32), nn.LayerNorm(32), nn.ReLU(), nn.Linear(32, 32), nn.LayerNorm(32))


def products(x: Tensor) -> Any:
    return torch.cat([x.exp() @ x.t(), x.sin() @ x.t()], 0).softmax(0) @ x


D = Dim.DYNAMIC
CASES: dict[str, tuple[Callable[[], Any], tuple[int, ...], dict[int, Any]]] = {
    "mlp": (lambda: nn.Sequential(nn.Linear(16, 64), nn.GELU(), nn.Linear(64, 4)), (8, 16), {0: D}),
    "norms": (_normalized, (4, 5, 16), {0: D, 1: D}),
    "norms, named": (_normalized, (4, 5, 16), {0: Dim("b", max=64), 1: Dim("t", max=128)}),
    "convolutions": (_convolutions, (2, 3, 16, 16), {0: D, 2: D, 3: D}),
    "encoder": (lambda: nn.TransformerEncoderLayer(32, 4, 64, batch_first=True), (3, 10, 32), {0: D, 1: D}),
    "attention": (Attention, (2, 7), {0: D, 1: D}),
    "products": (lambda: products, (5, 6), {0: D}),
}


def _conditions(plan: Plan) -> Iterator[tuple[str, str]]:
    for function in plan.functions:
        for step in function.steps:
            if isinstance(step, steps.CheckCondition):
                yield str(step.condition), step.message


@pytest.mark.parametrize("empty_sizes", [False, True])
def test_slots_add_no_checks(empty_sizes: bool) -> None:
    slots = 0
    for name, (make, sizes, dims) in CASES.items():
        model = make()
        x = torch.randint(0, 50, sizes) if name == "attention" else torch.randn(sizes)
        if isinstance(model, nn.Module):
            model.eval().requires_grad_(False)
        options = CaptureOptions(empty_sizes=empty_sizes)
        artifact = capture(model, (x,), dynamic_shapes=(dims,), options=options)
        memo = Analyses.of(artifact.program)
        checks = set(_conditions(lower(artifact, LoweringOptions(), memo)))
        program = with_persistent_pools(artifact.program, memo)
        persistent = replace(artifact, program=program)
        plan = lower(persistent, LoweringOptions(persistent_buffers=True), memo.after(program))
        assert set(_conditions(plan)) <= checks, name
        slots += sum(isinstance(op, ir.Slot) for op in program.main.body)
    assert slots > 10
