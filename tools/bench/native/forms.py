"""Other forms of a model: in bfloat16, or with int8 weights; float32 outside."""

from __future__ import annotations

from collections.abc import Callable, Mapping

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


def _in_int8(model: BenchModel) -> BenchModel:
    """Weights of linear layers as int8 with a scale for each output, by torchao."""
    # In the benchmark's own folder of packages.
    from torchao.quantization import Int8WeightOnlyConfig, quantize_  # type: ignore[import-not-found]
    from torchao.utils import unwrap_tensor_subclass  # type: ignore[import-not-found]

    quantize_(model.module, Int8WeightOnlyConfig())
    return BenchModel(unwrap_tensor_subclass(model.module), model.args)


FORMS: Mapping[str, Callable[[BenchModel], BenchModel]] = {"bf16": _in_bfloat16, "int8": _in_int8}
"""What changes a model, by the suffix of its name: `bert.bf16`."""


def make(name: str, *, in_form: bool = True) -> BenchModel:
    """Makes a model in evaluation mode by name; `in_form=False`: without the form of the suffix."""
    base, _, form = name.partition(".")
    model = MODELS[base].make()
    model.module.eval().requires_grad_(requires_grad=False)
    return FORMS[form](model) if form and in_form else model
