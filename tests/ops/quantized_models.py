"""Models with int8 weights, in the forms that torchao and `torch.ao` export, and their packed artifacts."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn
from torch.ao.quantization.fx import _decomposed  # registers `quantized_decomposed`

from inductor_frontend import capture
from wrapper_ir.artifact import Artifact
from wrapper_ir_passes import run_on_artifact

assert _decomposed is not None
_ops = torch.ops.quantized_decomposed
_INPUTS, _OUTPUTS = 20, 40


class Quantized(nn.Module):
    """A linear layer and one of fewer outputs with int8 weights."""

    def __init__(self, linear: Callable[[Layer, Tensor], Tensor], dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        self.linear, self.dtype = linear, dtype
        self.layers = nn.ModuleList([Layer(_INPUTS, _OUTPUTS, dtype), Layer(_OUTPUTS, 18, dtype)])

    def forward(self, x: Tensor) -> Tensor:
        """Returns 18 numbers for each row."""
        x = x.to(self.dtype)
        for layer in self.layers:
            assert isinstance(layer, Layer)
            x = torch.relu(self.linear(layer, x))
        return x.float()


class Layer(nn.Module):
    """The weight of a layer, with a scale and a zero point for each output, and a bias."""

    weight: Tensor
    scale: Tensor
    zero_point: Tensor
    bias: Tensor

    def __init__(self, inputs: int, outputs: int, dtype: torch.dtype) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(outputs)
        weight = torch.randint(-128, 128, (outputs, inputs), dtype=torch.int8, generator=generator)
        scale, bias = torch.rand(outputs, generator=generator), torch.randn(outputs, generator=generator)
        self.register_buffer("weight", weight)
        self.register_buffer("scale", (scale / 400 + 0.001).to(dtype))
        self.register_buffer("zero_point", torch.zeros(outputs, dtype=torch.int64))
        self.register_buffer("bias", bias.to(dtype))

    def dequantized(self) -> Tensor:
        """Returns the weight as `torch.ao` exports it."""
        weight: Tensor = _ops.dequantize_per_channel(
            self.weight, self.scale, self.zero_point, 0, -128, 127, torch.int8
        )
        return weight


def weights_alone(layer: Layer, x: Tensor) -> Tensor:
    """As torchao's `Int8WeightOnlyConfig`."""
    return torch.mm(x, layer.weight.t().to(x.dtype)) * layer.scale + layer.bias


def dynamic_rows(layer: Layer, x: Tensor) -> Tensor:
    """As torchao's `Int8DynamicActivationInt8WeightConfig`: rows have scales."""
    scale = (x.abs().amax(1, keepdim=True) / 127.5).clamp(min=1e-7)
    rows = (x / scale).round().clamp(-128, 127).to(torch.int8)
    columns = layer.weight.t()
    sums = torch._int_mm((rows.to(torch.int32) + 128).to(torch.uint8), columns)
    sums = sums - columns.sum(0, keepdim=True, dtype=torch.int32) * 128
    return sums.float() * scale * layer.scale + layer.bias


def static(layer: Layer, x: Tensor) -> Tensor:
    """As `convert_pt2e` with X86InductorQuantizer."""
    rows = _ops.quantize_per_tensor(x, 0.02, 133, 0, 255, torch.uint8)
    rows = _ops.dequantize_per_tensor(rows, 0.02, 133, 0, 255, torch.uint8)
    return nn.functional.linear(rows, layer.dequantized(), layer.bias)


def symmetric(layer: Layer, x: Tensor) -> Tensor:
    """As `convert_pt2e`, with rows of int8 without a zero point, and more dimensions."""
    rows = _ops.quantize_per_tensor(x.unsqueeze(1), 0.03, 0, -128, 127, torch.int8)
    rows = _ops.dequantize_per_tensor(rows, 0.03, 0, -128, 127, torch.int8)
    return nn.functional.linear(rows, layer.dequantized(), layer.bias).squeeze(1)


def dynamic(layer: Layer, x: Tensor) -> Tensor:
    """As `convert_pt2e` with a dynamic X86InductorQuantizer: scale and zero point are tensors."""
    scale = ((x.amax() - x.amin()) / 255).clamp(min=1e-4)
    zero_point = (-(x.amin() / scale).round()).clamp(0, 255)
    parameters = (scale.double(), zero_point.long(), 0, 255, torch.uint8)
    rows = _ops.quantize_per_tensor.tensor(x, *parameters)
    rows = _ops.dequantize_per_tensor.tensor(rows, *parameters)
    return nn.functional.linear(rows, layer.dequantized(), layer.bias)


def dequantized(layer: Layer, x: Tensor) -> Tensor:
    """As `convert_pt2e` with weights alone."""
    return nn.functional.linear(x, layer.dequantized(), layer.bias)


MODELS: Mapping[str, Callable[[], Quantized]] = {
    "weights_alone": lambda: Quantized(weights_alone),
    "bfloat16": lambda: Quantized(weights_alone, torch.bfloat16),
    "dynamic_rows": lambda: Quantized(dynamic_rows),
    "static": lambda: Quantized(static),
    "symmetric": lambda: Quantized(symmetric),
    "dynamic": lambda: Quantized(dynamic),
    "dequantized": lambda: Quantized(dequantized),
}


def quantized_model(name: str, passes: str = "") -> tuple[Quantized, Artifact, tuple[Tensor, ...]]:
    """Returns a model, its artifact with a dynamic batch after these passes, and arguments."""
    model = MODELS[name]().eval()
    args = (torch.linspace(-2, 3, 7 * _INPUTS).view(7, _INPUTS),)
    shapes = ({0: torch.export.Dim("batch", min=2, max=64)},)
    with torch.no_grad():
        artifact = capture(model, args, dynamic_shapes=shapes)
    return model, run_on_artifact(artifact, passes) if passes else artifact, args
