"""Image models of torchvision, which must be installed."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

try:
    models = importlib.import_module("torchvision.models")
except RuntimeError:
    # A torchvision that was built for CUDA does not load its operators beside a CPU build of torch, and then
    # cannot be imported, not by transformers either. Those that it registers on import, which no classifier
    # calls, are declared for it.
    for operator in ("nms", "qnms"):
        torch.library.define(
            f"torchvision::{operator}", "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
        )
    models = importlib.import_module("torchvision.models")

NAMES = (
    "alexnet",
    "densenet121",
    "efficientnet_b0",
    "googlenet",
    "mnasnet1_0",
    "mobilenet_v3_small",
    "regnet_y_400mf",
    "resnet18",
    "shufflenet_v2_x1_0",
    "squeezenet1_1",
    "swin_t",
    "vit_b_32",
)


class _Classifier(nn.Module):
    """An image model with the loss that transformers' have."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Tensor, labels: Tensor) -> dict[str, Tensor]:
        logits = self.model(x)
        return {"loss": nn.functional.cross_entropy(logits, labels), "logits": logits}


def classifier(name: str) -> Callable[[], nn.Module]:
    """Creates the model of this name with random weights."""

    def make() -> nn.Module:
        return _Classifier(models.get_model(name, weights=None)).eval()

    return make


def image() -> dict[str, Any]:  # Any: a call's keyword arguments
    """Returns one image and its label."""
    return {"x": torch.randn(1, 3, 224, 224), "labels": torch.tensor([1])}
