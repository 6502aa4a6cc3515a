"""Programs that choose among kernels, captured for a GPU and run on one: any choice equals eager mode."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch._inductor import config
from torch.nn.attention.flex_attention import flex_attention
from torch.utils import _pytree as pytree

import fx_converter
import py_wrapper
from fx_converter import FxOptions
from fx_converter.kernels import KernelCalls
from inductor_frontend import CaptureOptions, capture
from py_wrapper import PyOptions
from tests.common.torch_versions import STORES
from triton_runtime import TritonOptions, TritonRuntime
from triton_runtime.choose import ChoiceOptions, Pick
from triton_runtime.tune import TuneOptions
from wrapper_ir import ir
from wrapper_ir.artifact import Artifact

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(
        not torch.cuda.is_available(), reason="programs run on a CUDA device, and there is none"
    ),
]
Model = Callable[..., Any]  # Any: results of models
TOLERANCE = 2e-3
"""Matmuls on the device add up in another order."""

MULTI: dict[str, tuple[nn.Module, tuple[torch.Tensor, ...]]] = {
    "softmax": (nn.Softmax(-1), (torch.randn(64, 2000),)),
    "layer norm": (nn.LayerNorm(1500).eval(), (torch.randn(32, 1500),)),
    "half precision": (nn.LayerNorm(1024).eval().bfloat16(), (torch.randn(16, 1024).bfloat16(),)),
}


class Attention(nn.Module):
    """The template of attention, with a change of its scores."""

    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Any:
        return flex_attention(q, k, v, score_mod=lambda score, b, h, i, j: score + (i - j) / 64)


class Matmul(nn.Module):
    """A matmul, batched or not, with ops after it."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.relu(x @ y)


class Sum(nn.Module):
    """A sum of two matmuls, for which Inductor has a template and an operator."""

    def forward(self, a: torch.Tensor, b: torch.Tensor, c: torch.Tensor, d: torch.Tensor) -> torch.Tensor:
        return a @ b + c @ d


MATMULS: dict[str, tuple[nn.Module, tuple[torch.Tensor, ...]]] = {
    "layers": (
        nn.Sequential(nn.Linear(96, 200), nn.GELU(), nn.Linear(200, 50)).eval(),
        (torch.randn(70, 96),),
    ),
    "batched": (Matmul(), (torch.randn(3, 50, 96), torch.randn(3, 96, 70))),
    "half precision": (Matmul(), (torch.randn(130, 64).bfloat16(), torch.randn(64, 256).bfloat16())),
    "sum of two": (Sum(), tuple(torch.randn(64, 64) for _ in range(4))),
    "convolution": (nn.Conv2d(8, 16, 3, stride=2).eval(), (torch.randn(2, 8, 15, 15),)),
    "attention": (Attention(), tuple(torch.randn(1, 2, 128, 64) for _ in range(3))),
}


def for_this(model: nn.Module, args: tuple[torch.Tensor, ...], **given: Any) -> Artifact:  # Any: capture's
    """For this device, but without using it."""
    major, minor = torch.cuda.get_device_capability()
    return capture(model, args, target=f"cuda:sm_{major}{minor}", **given)


def running(artifact: Artifact, options: TritonOptions) -> Model:
    runtime = TritonRuntime(options=options)
    return py_wrapper.compile(artifact, PyOptions(find_runtime=lambda kind: runtime))


def first(kernel: ir.TritonKernel) -> ir.TritonConfig:
    return kernel.configs[0]


def smallest(kernel: ir.TritonKernel) -> ir.TritonConfig:
    def elements(config: ir.TritonConfig) -> int:
        return math.prod(
            v for _, v in config.meta if isinstance(v, int) and not isinstance(v, bool) and v > 0
        )

    return min(kernel.configs, key=lambda c: (elements(c), c.num_stages))


def compare(compiled: Model, model: nn.Module, args: tuple[torch.Tensor, ...]) -> None:
    moved = pytree.tree_map_only(torch.Tensor, lambda x: x.cuda(), args)
    model = model.cuda()
    with torch.no_grad():
        want = model(*moved)
    tolerance = TOLERANCE if want.dtype is torch.float32 else 2e-2
    torch.testing.assert_close(compiled(*moved), want, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", MULTI)
def test_multi_kernels(name: str) -> None:
    """Each kernel, then the one that is measured to be faster."""
    model, args = MULTI[name]
    artifact = for_this(model.cpu(), args, options=CaptureOptions(multi_kernels=True))
    assert any(isinstance(k, ir.MultiKernel) for k in artifact.program.kernels)
    for force in (0, 1, None):
        picks: list[Pick] = []
        choice = ChoiceOptions(force=force, stored=False, picked=picks.append)
        compare(running(artifact, TritonOptions(choice=choice)), model, args)
        assert {p.why for p in picks} == {"measured" if force is None else "forced"}
        assert force is not None or all(m is not None for p in picks for m in p.means)


def test_size_hinted_kernels() -> None:
    y = torch.randn(96, 128)
    artifact = for_this(
        Matmul(),
        (torch.randn(50, 96), y),
        dynamic_shapes=({0: torch.export.Dim("rows", max=100_000)}, None),
        options=CaptureOptions(matmuls="templates", size_hints=(32, 4096)),
    )
    picks: list[Pick] = []
    compiled = running(artifact, TritonOptions(choice=ChoiceOptions(picked=picks.append)))
    for rows in (16, 70, 5000):
        compare(compiled, Matmul(), (torch.randn(rows, 96), y))
    [several] = [k for k in artifact.program.kernels if isinstance(k, ir.MultiKernel)]
    made_for = [several.variants[p.index].hints[0] for p in picks]
    assert made_for == [(32, 96), (32, 96), (4096, 96)]
    assert {p.why for p in picks} == {"sizes"}


@pytest.mark.parametrize("name", MATMULS)
def test_templates(name: str) -> None:
    """With the first of their configs, and with the one with the smallest blocks: large ones may not fit."""
    model, args = MATMULS[name]
    artifact = for_this(model.cpu(), args, options=CaptureOptions(matmuls="templates"))
    assert any(isinstance(k, ir.TritonKernel) and k.heuristic == "template" for k in artifact.program.kernels)
    for choose in (first, smallest):
        compare(running(artifact, TritonOptions(choose=choose)), model, args)


@pytest.mark.skipif(
    torch.cuda.is_available() and torch.cuda.get_device_capability() < (9, 0),
    reason="Inductor has templates with descriptors for GPUs from sm_90 on",
)
@pytest.mark.parametrize("store", STORES)
def test_templates_with_descriptors(store: bool) -> None:
    """The template without them, and the one with them."""
    args = (torch.randn(256, 128).bfloat16(), torch.randn(128, 512).bfloat16())
    with config.patch(
        {"triton.enable_persistent_tma_matmul": True, "triton.enable_template_tma_store": store}
    ):
        artifact = for_this(Matmul(), args, options=CaptureOptions(matmuls="templates"))
    kernels = [k for k in artifact.program.kernels if isinstance(k, ir.TritonKernel)]
    assert ["make_tensor_descriptor" in k.source for k in kernels] == [False, True]
    for force in (0, 1):
        choice = ChoiceOptions(force=force, stored=False)
        for choose in (first, smallest):
            compare(running(artifact, TritonOptions(choice=choice, choose=choose)), Matmul(), args)


def test_tuned_templates() -> None:
    model, args = MATMULS["batched"]
    artifact = for_this(model.cpu(), args, options=CaptureOptions(matmuls="templates"))
    compare(running(artifact, TritonOptions(tune=TuneOptions())), model, args)


@pytest.mark.parametrize("name", ["layers", "half precision", "sum of two", "convolution"])
def test_candidates(name: str) -> None:
    """The operator, the template, then the one that is measured to be faster, the template with all of its
    configs.
    """
    model, args = MATMULS[name]
    artifact = for_this(model.cpu(), args, options=CaptureOptions(matmuls="candidates"))
    assert any(isinstance(k, ir.OperatorKernel) for k in artifact.program.kernels)
    for force in (0, 1, None):
        picks: list[Pick] = []
        choice = ChoiceOptions(force=force, stored=False, picked=picks.append)
        compare(running(artifact, TritonOptions(choice=choice)), model, args)
        assert {p.why for p in picks} == {"measured" if force is None else "forced"}


@pytest.mark.parametrize("form", ["direct", "hop"])
@pytest.mark.parametrize(
    ("cases", "name", "options"),
    [
        (MULTI, "layer norm", CaptureOptions(multi_kernels=True)),
        (MATMULS, "layers", CaptureOptions(matmuls="templates")),
        (MATMULS, "batched", CaptureOptions(matmuls="candidates")),
    ],
    ids=["multi-kernels", "templates", "candidates"],
)
def test_graphs(
    cases: dict[str, tuple[nn.Module, tuple[torch.Tensor, ...]]],
    name: str,
    options: CaptureOptions,
    form: KernelCalls,
) -> None:
    """FX graphs, which choose at their first call or, in torch's own form, take the first kernel."""
    model, args = cases[name]
    artifact = for_this(model.cpu(), args, options=options)
    for compiled in (
        fx_converter.convert(artifact, FxOptions(kernel_calls=form)),
        fx_converter.compile(artifact, FxOptions(kernel_calls=form)),
    ):
        compare(compiled, model, args)
