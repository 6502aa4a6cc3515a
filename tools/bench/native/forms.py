"""Other forms of a model: in bfloat16, or with int8 weights; float32 outside."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from tools.bench.native.models import MODELS, BenchModel


class _Inside(nn.Module):
    """A model in bfloat16, whose floating-point arguments and results are float32."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model.to(torch.bfloat16)

    def forward(self, *args: Tensor) -> tuple[Tensor, ...]:
        inside = [arg.to(torch.bfloat16) if arg.is_floating_point() else arg for arg in args]
        return tuple(result.float() for result in self.model(*inside))


def _in_bfloat16(model: BenchModel) -> BenchModel:
    return BenchModel(_Inside(model.module), model.args)


def _in_int8(model: BenchModel, *, is_dynamic: bool) -> BenchModel:
    """Weights of linear layers as int8 with a scale for each output, by torchao.

    A dynamic form rounds activations to int8, too, with a scale for each row.
    """
    # In the benchmark's own folder of packages.
    from torchao.quantization import Int8DynamicActivationInt8WeightConfig, Int8WeightOnlyConfig, quantize_  # type: ignore[import-not-found]
    from torchao.utils import unwrap_tensor_subclass  # type: ignore[import-not-found]

    as_linear_layers(model.module)
    quantize_(model.module, Int8DynamicActivationInt8WeightConfig() if is_dynamic else Int8WeightOnlyConfig())
    return BenchModel(unwrap_tensor_subclass(model.module), model.args)


def as_linear_layers(model: nn.Module) -> None:
    """Replaces the linear layers that GPT-2 has in its own class, which torchao does not know."""
    from transformers.pytorch_utils import Conv1D

    replace_layers(model, Conv1D, _linear)


def _linear(layer: Any) -> nn.Linear:  # Any: transformers publishes no types
    inputs, outputs = layer.weight.shape
    linear = nn.Linear(inputs, outputs, device="meta")
    linear.weight, linear.bias = nn.Parameter(layer.weight.t().contiguous()), layer.bias
    return linear.eval().requires_grad_(requires_grad=False)


def replace_layers(model: nn.Module, kind: type[nn.Module], make_layer: Callable[[Any], nn.Module]) -> None:
    """Replaces layers of a class in place."""
    for parent in list(model.modules()):
        for name, layer in list(parent.named_children()):
            if isinstance(layer, kind):
                setattr(parent, name, make_layer(layer))


FORMS: Mapping[str, Callable[[BenchModel], BenchModel]] = {
    "bf16": _in_bfloat16,
    "int8": partial(_in_int8, is_dynamic=False),
    "int8_dynamic": partial(_in_int8, is_dynamic=True),
}
"""What changes a model, by the suffix of its name: `bert.bf16`."""


def make(name: str, *, in_form: bool = True) -> BenchModel:
    """Makes a model in evaluation mode by name; `in_form=False`: without the form of the suffix."""
    base, _, form = name.partition(".")
    model = MODELS[base].make()
    model.module.eval().requires_grad_(requires_grad=False)
    return FORMS[form](model) if form and in_form else model
