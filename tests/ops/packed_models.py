"""Models with constant weights in every role that `pack-constants` rewrites, and their packed artifacts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

import fx_converter
import py_wrapper
from inductor_frontend import capture
from wrapper_ir.artifact import Artifact
from wrapper_ir.plugins.registry import machine
from wrapper_ir_passes import run_on_artifact
from wrapper_ir_runtime.interp import Interpreter

_WIDTH, _VOCABULARY = 32, 50
_BATCH = torch.export.Dim("batch", min=2, max=64)


class Transformer(nn.Module):
    """A block of a GPT, whose embedding is the weight of its head."""

    def __init__(self) -> None:
        super().__init__()
        self.wte = nn.Embedding(_VOCABULARY, _WIDTH)
        self.qkv = nn.Linear(_WIDTH, 3 * _WIDTH)
        self.proj = nn.Linear(_WIDTH, _WIDTH)
        self.norm = nn.LayerNorm(_WIDTH)
        self.head = nn.Linear(_WIDTH, _VOCABULARY, bias=False)
        self.head.weight = self.wte.weight

    def forward(self, tokens: Tensor) -> Tensor:
        """Returns the logits of each token."""
        x = self.wte(tokens)
        batch, length, width = x.shape
        query, key, value = (
            self.qkv(self.norm(x)).view(batch, length, 3, 2, width // 2).permute(2, 0, 3, 1, 4)
        )
        y = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        logits: Tensor = self.head(x + self.proj(y.transpose(1, 2).reshape(batch, length, width)))
        return logits


class Tied(nn.Module):
    """An embedding that is also the weight of a head, after a matmul with few columns."""

    def __init__(self) -> None:
        super().__init__()
        self.wte = nn.Embedding(_VOCABULARY, _WIDTH)
        self.mix = nn.Linear(_WIDTH, _WIDTH)
        self.head = nn.Linear(_WIDTH, _VOCABULARY, bias=False)
        self.head.weight = self.wte.weight
        self.score = nn.Linear(_VOCABULARY, 3)

    def forward(self, tokens: Tensor) -> Tensor:
        """Returns three numbers for each token."""
        scores: Tensor = self.score(self.head(self.mix(self.wte(tokens))))
        return scores


class Convolutions(nn.Module):
    """A strided, a depthwise and a grouped convolution, a normalisation and a classifier."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 20, 3, stride=2, padding=1)
        self.depthwise = nn.Conv2d(20, 20, 3, padding=1, groups=20, bias=False)
        self.grouped = nn.Conv2d(20, 24, 1, groups=2)
        self.norm = nn.BatchNorm2d(24)
        self.fc = nn.Linear(24, 10)

    def forward(self, x: Tensor) -> Tensor:
        """Returns ten numbers for each image."""
        x = self.depthwise(F.relu(self.first(x)))
        logits: Tensor = self.fc(F.relu(self.norm(self.grouped(x))).mean((2, 3)))
        return logits


def mlp() -> nn.Module:
    """Returns two linear layers with dynamic batch."""
    return nn.Sequential(nn.Linear(8, 24), nn.ReLU(), nn.Linear(24, 9))


ENGINES: dict[str, Callable[[Artifact], Callable[..., Any]]] = {
    "python": py_wrapper.compile,
    "fx": fx_converter.convert,
    "interpreter": lambda artifact: Interpreter(artifact, machine("torch")),
}
"""Each way to run a program with torch, from its artifact."""

# by name: the model, its arguments, and its dynamic shapes
MODELS: dict[str, tuple[Any, tuple[Tensor, ...], Any]] = {
    "mlp": (mlp, (torch.linspace(-1, 1, 24).view(3, 8),), ({0: _BATCH},)),
    "tied": (Tied, (torch.arange(8),), None),
    "transformer": (Transformer, (torch.arange(16).view(2, 8),), None),
    "convolutions": (Convolutions, (torch.linspace(-1, 1, 1536).view(2, 3, 16, 16),), None),
}


def packed_model(name: str, passes: str = "pack-constants") -> tuple[nn.Module, Artifact, tuple[Tensor, ...]]:
    """Returns a model, its artifact after these passes, and arguments."""
    make, args, dynamic = MODELS[name]
    torch.manual_seed(0)
    model = make().eval()
    artifact = capture(model, args, **({} if dynamic is None else {"dynamic_shapes": dynamic}))
    return model, run_on_artifact(artifact, passes), args
