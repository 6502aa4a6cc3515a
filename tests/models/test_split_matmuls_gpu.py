"""Matmuls split along K on a GPU, through every emitter and `torch.compile`, compared with eager mode."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import cpp_wrapper
import fx_converter
import py_wrapper
from inductor_frontend import CaptureOptions, capture
from wrapper_ir.artifact import Artifact
from wrapper_ir.text import print_program

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(
        not torch.cuda.is_available(), reason="programs run on a CUDA device, and there is none"
    ),
]
Made = tuple[nn.Module, tuple[Tensor, ...]]
Model = Callable[..., Any]  # Any: results of models
OPTIONS: dict[str, Any] = {"matmuls": "split", "cache": False, "on_unsupported": "error"}
TOLERANCE = 2e-3
"""Matmuls on the device add up in another order."""


def mlp() -> Made:
    torch.manual_seed(0)
    layers = (nn.Linear(256, 512), nn.GELU(), nn.Linear(512, 256), nn.LayerNorm(256))
    return nn.Sequential(*layers).cuda().eval(), (torch.randn(16, 256, device="cuda"),)


class Logits(nn.Module):
    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: Tensor) -> Any:
        return self.model(ids, use_cache=False).logits


def gpt2() -> Made:
    transformers = pytest.importorskip("transformers")
    config = transformers.GPT2Config(n_layer=2, n_embd=256, n_head=4, vocab_size=999)
    torch.manual_seed(0)
    ids = torch.arange(32, device="cuda").view(1, 32)
    return Logits(transformers.GPT2LMHeadModel(config)).cuda().eval(), (ids,)


MODELS: dict[str, tuple[Callable[[], Made], dict[str, int]]] = {
    "mlp": (mlp, {"bmm": 2}),
    # attention uses the first matmul of a layer, and the last one's result is the model's
    "gpt2": (gpt2, {"addmm": 2, "bmm": 6, "mm": 1}),
}
"""A model, and the matmuls that its program calls."""


def python(artifact: Artifact, folder: Path) -> Model:
    return py_wrapper.compile(artifact)


def fx(artifact: Artifact, folder: Path) -> Model:
    return fx_converter.convert(artifact)


def cpp(artifact: Artifact, folder: Path) -> Model:
    return cpp_wrapper.load(cpp_wrapper.build(artifact, folder / "m.pt2"))


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("emit", [python, fx, cpp])
def test_an_emitter(emit: Callable[[Artifact, Path], Model], name: str, tmp_path: Path) -> None:
    make, matmuls = MODELS[name]
    model, args = make()
    with torch.no_grad():
        artifact = capture(model, args, options=CaptureOptions(matmuls="split"))
        found = re.findall(r"call aten::(addmm|bmm|mm)\.out", print_program(artifact.program))
        assert {kind: found.count(kind) for kind in sorted(set(found))} == matmuls
        run = emit(artifact, tmp_path)
        for _ in range(2):
            torch.testing.assert_close(run(*args), model(*args), rtol=TOLERANCE, atol=TOLERANCE)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("cuda_graphs", [0, 4])
def test_torch_compile(name: str, cuda_graphs: int) -> None:
    model, args = MODELS[name][0]()
    compiled = torch.compile(model, backend="wrapper_ir", options={**OPTIONS, "cuda_graphs": cuda_graphs})
    with torch.no_grad():
        for _ in range(4):
            found = compiled(*args).clone()
            torch.testing.assert_close(found, model(*args), rtol=TOLERANCE, atol=TOLERANCE)


def test_a_training_step() -> None:
    """Matmuls of the backward graph are split, too."""
    model, (x,) = mlp()
    compiled = torch.compile(model, backend="wrapper_ir", options=OPTIONS)
    want, found = (
        torch.autograd.grad(run(x).sin().sum(), list(model.parameters())) for run in (model, compiled)
    )
    torch.testing.assert_close(found, want, rtol=TOLERANCE, atol=TOLERANCE)
