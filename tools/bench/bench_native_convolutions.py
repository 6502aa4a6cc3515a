"""Float32 convolutions of the native runtime against torch and other libraries, on one thread.

Usage: `python -m tools.bench.bench_native_convolutions [--peers FOLDER] [--models resnet18-112,...] [--rounds N]`.
Prints microseconds of each layer of a model, and sums. FOLDER contains the packages onnxruntime, onnx and
openvino (`pip install --target FOLDER ...`); sides that are not installed are skipped.

Ours have packed weights, or weights that are packed in each call ("weights"). Images are channels-last for
ours and torch, contiguous for the others and in one dimension; a layer is a model of its own there. The clock
is the process's own, and a figure the least of all rounds.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from tests.native.operator_library import Operators, build_operators
from tools.bench.pages import table

_FLAGS = {
    "DEFAULT": (),
    "AVX2": ("-mavx2", "-mfma", "-mf16c"),
    "AVX512": ("-mavx512f", "-mavx512dq", "-mavx512vl", "-mavx512bw", "-mfma", "-mf16c"),
}
_SECONDS = 0.1
"""Seconds of the calls of a round."""
_FORMATS = {1: torch.contiguous_format, 2: torch.channels_last}
Call = Callable[[], object]


@dataclass(frozen=True, slots=True)
class Layer:
    """A convolution of one image: channels, kernel, stride, padding, size of the image, groups, dimensions."""

    inputs: int
    outputs: int
    kernel: int
    stride: int
    padding: int
    size: int
    groups: int = 1
    rank: int = 2

    @property
    def name(self) -> str:
        """The layer as a row's label."""
        groups = f", {self.groups} groups" if self.groups > 1 else ""
        return f"{self.inputs} to {self.outputs}, {self.kernel} by {self.stride}, {self.size}{groups}"

    def tensors(self) -> tuple[Tensor, Tensor]:
        """Random image and weight."""
        image = torch.randn(1, self.inputs, *[self.size] * self.rank)
        weight = torch.randn(self.outputs, self.inputs // self.groups, *[self.kernel] * self.rank)
        last = _FORMATS[self.rank]
        return image.contiguous(memory_format=last), weight.contiguous(memory_format=last)

    @property
    def steps(self) -> tuple[list[int], list[int], list[int]]:
        """Stride, padding and dilation."""
        return [self.stride] * self.rank, [self.padding] * self.rank, [1] * self.rank


def resnet18(size: int) -> Iterator[Layer]:
    """The layers of ResNet-18."""
    yield Layer(3, 64, 7, 2, 3, size)
    inputs, size = 64, size // 4
    for outputs, stride in ((64, 1), (64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), (512, 1)):
        yield Layer(inputs, outputs, 3, stride, 1, size)
        if stride > 1:
            yield Layer(inputs, outputs, 1, stride, 0, size)
        inputs, size = outputs, -(-size // stride)
        yield Layer(outputs, outputs, 3, 1, 1, size)


def mobilenet_v2(size: int) -> Iterator[Layer]:
    """The layers of MobileNetV2."""
    yield Layer(3, 32, 3, 2, 1, size)
    inputs, size = 32, size // 2
    blocks = (
        (1, 16, 1, 1),
        (6, 24, 2, 2),
        (6, 32, 3, 2),
        (6, 64, 4, 2),
        (6, 96, 3, 1),
        (6, 160, 3, 2),
        (6, 320, 1, 1),
    )
    for factor, outputs, count, first_stride in blocks:
        for i in range(count):
            inner, stride = inputs * factor, first_stride if i == 0 else 1
            if factor > 1:
                yield Layer(inputs, inner, 1, 1, 0, size)
            yield Layer(inner, inner, 3, stride, 1, size, inner)
            size = -(-size // stride)
            yield Layer(inner, outputs, 1, 1, 0, size)
            inputs = outputs
    yield Layer(320, 1280, 1, 1, 0, size)


def convnext_tiny(size: int) -> Iterator[Layer]:
    """The convolutions of ConvNeXt-tiny; the rest are matmuls."""
    yield Layer(3, 96, 4, 4, 0, size)
    size //= 4
    for channels, count in ((96, 3), (192, 3), (384, 9), (768, 3)):
        yield from [Layer(channels, channels, 7, 1, 3, size, channels)] * count
        if channels < 768:
            yield Layer(channels, 2 * channels, 2, 2, 0, size)
            size //= 2


def wav2vec2(size: int) -> Iterator[Layer]:
    """The convolutions of wav2vec2-base, in one dimension."""
    inputs = 1
    for kernel, stride in ((10, 5), (3, 2), (3, 2), (3, 2), (3, 2), (2, 2), (2, 2)):
        yield Layer(inputs, 512, kernel, stride, 0, size, rank=1)
        inputs, size = 512, (size - kernel) // stride + 1
    yield Layer(768, 768, 128, 1, 64, size, 16, rank=1)


MODELS = {
    "resnet18-112": lambda: resnet18(112),
    "resnet18-224": lambda: resnet18(224),
    "mobilenet-224": lambda: mobilenet_v2(224),
    "convnext-224": lambda: convnext_tiny(224),
    "wav2vec2-16000": lambda: wav2vec2(16000),
}


def packed(weight: Tensor, groups: int) -> Tensor:
    """The weights of each group as a matrix, in panels of 16 columns."""
    rows = weight.flatten(2).movedim(2, 1)
    is_depthwise = groups > 1 and weight.size(0) == groups and weight.size(1) == 1
    matrices = rows.reshape(1 if is_depthwise else groups, -1, rows[0].numel()).transpose(1, 2)
    full = torch.nn.functional.pad(matrices, (0, -matrices.size(2) % 16))
    return torch.stack(torch.split(full, 16, 2), 1)


def our_calls(operators: Operators, layer: Layer) -> dict[str, Call]:
    """Our calls, and torch's."""
    image, weight = layer.tensors()
    rest = (*layer.steps, False, [0] * layer.rank, layer.groups)
    out = torch.empty_like(torch.ops.aten.convolution(image, weight, None, *rest))
    sizes, panels = (list(weight.shape[2:]), layer.outputs), packed(weight, layer.groups)
    ours = (image, panels, None, *sizes, *layer.steps, layer.groups)
    return {
        "ours": operators.bound("wrapper_ir::packed_convolution.out", *ours, out=out),
        "weights": operators.bound("aten::convolution.out", image, weight, None, *rest, out=out),
        "torch": lambda: torch.ops.aten.convolution(image, weight, None, *rest),
    }


def peer_calls(layer: Layer, modules: dict[str, Any]) -> dict[str, Call]:  # Any: modules of other packages
    """Calls of ONNX Runtime and OpenVINO, as far as they are installed."""
    if "onnx" not in modules:
        return {}
    onnx, calls = modules["onnx"], dict[str, Call]()
    helper, image, weight = onnx.helper, *(t.contiguous().numpy() for t in layer.tensors())
    attributes = {"strides": layer.steps[0], "pads": layer.steps[1] * 2, "group": layer.groups}
    node = helper.make_node("Conv", ["x", "w"], ["y"], **attributes)
    x, y = (helper.make_tensor_value_info(*info) for info in (("x", 1, image.shape), ("y", 1, None)))
    graph = helper.make_graph([node], "layer", [x], [y], [onnx.numpy_helper.from_array(weight, "w")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    if runtime := modules.get("onnxruntime"):
        options = runtime.SessionOptions()
        options.intra_op_num_threads = 1
        session = runtime.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        binding = session.io_binding()
        binding.bind_cpu_input("x", image)
        binding.bind_output("y", "cpu")
        calls["ONNX Runtime"] = lambda: session.run_with_iobinding(binding)
    if openvino := modules.get("openvino"):
        settings = {"INFERENCE_NUM_THREADS": 1, "NUM_STREAMS": 1, "INFERENCE_PRECISION_HINT": "f32"}
        core = openvino.Core()
        request = core.compile_model(
            core.read_model(model.SerializeToString()), "CPU", settings
        ).create_infer_request()
        request.set_input_tensor(openvino.Tensor(image, shared_memory=True))
        calls["OpenVINO"] = request.infer
    return calls


def best(calls: dict[str, Call], rounds: int) -> dict[str, float]:
    """Microseconds of each call; the sides alternate."""
    least = dict.fromkeys(calls, float("inf"))
    for _ in range(rounds):
        for name, call in calls.items():
            end = time.perf_counter() + _SECONDS / rounds
            while True:
                start = time.process_time_ns()
                call()
                least[name] = min(least[name], (time.process_time_ns() - start) / 1e3)
                if time.perf_counter() > end:
                    break
    return least


def measure(model: str, operators: Operators, modules: dict[str, Any], rounds: int) -> None:
    """Prints the table of a model."""
    rows, sums = [], Counter[str]()
    for layer, count in Counter(MODELS[model]()).items():
        figures = best(our_calls(operators, layer) | peer_calls(layer, modules), rounds)
        sums.update({name: count * value for name, value in figures.items()})
        rows.append((layer.name, str(count), *(f"{value:.0f}" for value in figures.values())))
    rows.append(("sum", "", *(f"{value:.0f}" for value in sums.values())))
    rows.append(("ours / theirs", "", *(f"{sums['ours'] / value:.2f}" for value in sums.values())))
    print(f"\n{model}, microseconds of a call\n")
    print(table(("layer: channels, kernel by stride, size", "times", *sums), rows), flush=True)


def main() -> None:
    """Runs the command line."""
    parser = argparse.ArgumentParser(description="Convolutions against torch and other libraries.")
    parser.add_argument("--peers", default="")
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.peers:
        sys.path.append(options.peers)
    modules = {}
    for name in ("onnx", "onnxruntime", "openvino"):
        try:
            modules[name] = importlib.import_module(name)
        except ImportError:
            print(f"{name} is not installed")
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        flags = (*_FLAGS[torch.backends.cpu.get_cpu_capability()], "-fopenmp", "-O2", "-fno-trapping-math")
        operators = build_operators(("convolutions",), folder, flags)
    for model in options.models.split(","):
        measure(model, operators, modules, options.rounds)


if __name__ == "__main__":
    main()
