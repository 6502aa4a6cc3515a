"""One export of a model in a separate process: `python -m tools.bench.native.exports MODEL KIND FOLDER`.

| kind | writes into FOLDER |
| --- | --- |
| `case` | `case.txt`, inputs and eager's results as raw bytes (`side.h` states the form), `about.json` |
| `onnx` | `model.onnx`; weights beside it |
| `onnxruntime` | `ort.onnx`: `model.onnx` as ONNX Runtime has optimised it on this machine |
| `onnx_compressed` | the same with int8 weights of linear layers, which are multiplied by scales before a product |
| `openvino` | `openvino.xml` and `.bin`, from `model.onnx` |
| `onnxruntime_int8` | `ort.onnx`: `model.onnx` with int8 weights and activations, by ONNX Runtime's tool |
| `executorch` | `model.pte`, lowered to XNNPACK |
| `executorch_int8` | the same with int8 weights and activations, by its quantizer |
| `aotinductor` | `aotinductor.pt2` |
| `libtorch` | `libtorch.pt2`: ours, planned, with persistent buffers |
| `native` | `native.so`: ours without torch, packed, planned |

`MODEL.bf16` and `MODEL.int8` are the other forms of a model (`forms.py`); a kind that ends in `_float` exports it
without the form. Prints a line of JSON: the seconds that it took.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import cpp_wrapper
import inductor_frontend
from cpp_wrapper import CppOptions
from inductor_frontend import CaptureOptions
from tools.bench.native.forms import as_linear_layers, make, replace_layers
from tools.bench.native.models import BenchModel
from wrapper_ir_passes import MEMORY_PASSES, run_on_artifact, run_pipeline

_DTYPES = {torch.float32: "f32", torch.int64: "i64"}
_WITHOUT_FORM = "_float"
Exported = Any
"""torch.export.ExportedProgram, which torch does not type."""


def input_names(model: BenchModel) -> list[str]:
    """Names of inputs in the exports that have names."""
    return [f"in{index}" for index in range(len(model.args))]


def write_case(model: BenchModel, folder: Path) -> None:
    """Writes inputs and eager's results."""
    results = model.module(*model.args)
    named = [("input", name, tensor) for name, tensor in zip(input_names(model), model.args, strict=True)]
    named += [("output", f"out{index}", tensor) for index, tensor in enumerate(results)]
    lines = []
    for role, name, tensor in named:
        (folder / f"{name}.bin").write_bytes(tensor.contiguous().numpy().tobytes())
        sizes = " ".join(map(str, tensor.shape))
        lines.append(f"{role} {name} {_DTYPES[tensor.dtype]} {name}.bin {sizes}\n")
    (folder / "case.txt").write_text("".join(lines), encoding="utf-8")
    about = {"weights": weight_bytes(model)}
    (folder / "about.json").write_text(json.dumps(about), encoding="utf-8")


def weight_bytes(model: BenchModel) -> int:
    """Bytes of the parameters and buffers that a call reads, tied ones once."""
    program = _exported(model)
    signature = program.graph_signature
    targets = {**signature.inputs_to_parameters, **signature.inputs_to_buffers}
    read = [node.name for node in program.graph.nodes if node.op == "placeholder" and node.users]
    values = {**program.state_dict, **program.constants}
    tensors = [values[targets[name]] for name in read if name in targets]
    return sum({tensor.data_ptr(): tensor.nbytes for tensor in tensors}.values())


def _exported(model: BenchModel) -> Exported:
    return torch.export.export(model.module, model.args, strict=False)


def _onnx(model: BenchModel, folder: Path) -> None:
    results = [f"out{index}" for index in range(len(model.module(*model.args)))]
    program = torch.onnx.export(
        _exported(model), input_names=input_names(model), output_names=results, dynamo=True, verbose=False
    )
    assert program is not None
    program.save(str(folder / "model.onnx"), external_data=True)


class _CompressedLinear(nn.Module):
    """A linear layer with the weight as int8 and a scale for each output."""

    weight: Tensor
    scale: Tensor

    def __init__(self, layer: nn.Linear) -> None:
        super().__init__()
        scale = layer.weight.abs().amax(1, keepdim=True) / 127
        self.register_buffer("scale", scale)
        self.register_buffer("weight", (layer.weight / scale).round().to(torch.int8))
        self.bias = layer.bias

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.linear(x, self.weight.float() * self.scale, self.bias)


def _onnx_compressed(model: BenchModel, folder: Path) -> None:
    as_linear_layers(model.module)
    replace_layers(model.module, nn.Linear, _CompressedLinear)
    _onnx(model, folder)


def _onnxruntime(model: BenchModel, folder: Path) -> None:
    import onnxruntime  # type: ignore[import-not-found]  # in the benchmark's own folder of packages

    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(folder / "ort.onnx")
    options.add_session_config_entry("session.optimized_model_external_initializers_file_name", "ort.bin")
    options.log_severity_level = 3
    onnxruntime.InferenceSession(str(folder / "model.onnx"), options, providers=["CPUExecutionProvider"])


def _onnxruntime_int8(model: BenchModel, folder: Path) -> None:
    from onnxruntime.quantization import QuantType, quantize_dynamic  # type: ignore[import-not-found]

    source = str(folder / "model.onnx")
    options = {"MatMulConstBOnly": True}
    quantize_dynamic(
        source, str(folder / "ort.onnx"), weight_type=QuantType.QInt8, per_channel=True, extra_options=options
    )


def _openvino(model: BenchModel, folder: Path) -> None:
    import openvino  # type: ignore[import-not-found]  # as above

    openvino.save_model(
        openvino.convert_model(folder / "model.onnx"), folder / "openvino.xml", compress_to_fp16=False
    )


def _executorch(model: BenchModel, folder: Path) -> None:
    # Any: in the benchmark's own folder of packages
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner  # type: ignore[import-not-found]
    from executorch.exir import to_edge_transform_and_lower  # type: ignore[import-not-found]

    lowered = to_edge_transform_and_lower(_exported(model), partitioner=[XnnpackPartitioner()])
    (folder / "model.pte").write_bytes(lowered.to_executorch().buffer)


def _executorch_int8(model: BenchModel, folder: Path) -> None:
    # In the benchmark's own folder of packages.
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
    from executorch.backends.xnnpack.quantizer.xnnpack_quantizer import (  # type: ignore[import-not-found]
        XNNPACKQuantizer,
        get_symmetric_quantization_config,
    )
    from executorch.exir import to_edge_transform_and_lower
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e  # type: ignore[import-not-found]

    quantizer = XNNPACKQuantizer()
    quantizer.set_global(get_symmetric_quantization_config(is_per_channel=True, is_dynamic=True))
    prepared = prepare_pt2e(_exported(model).module(), quantizer)
    prepared(*model.args)
    program = torch.export.export(convert_pt2e(prepared), model.args, strict=False)
    lowered = to_edge_transform_and_lower(program, partitioner=[XnnpackPartitioner()])
    (folder / "model.pte").write_bytes(lowered.to_executorch().buffer)


def _aotinductor(model: BenchModel, folder: Path) -> None:
    path = str(folder / "aotinductor.pt2")
    torch._inductor.aoti_compile_and_package(_exported(model), package_path=path)


def _libtorch(model: BenchModel, folder: Path) -> None:
    artifact = inductor_frontend.capture(_exported(model), model.args)
    planned = replace(artifact, program=run_pipeline(artifact.program, MEMORY_PASSES))
    cpp_wrapper.build(planned, folder / "libtorch.pt2", CppOptions(persistent_buffers=True))


def _native(model: BenchModel, folder: Path) -> None:
    fused = CaptureOptions(fused_convolutions=True, fused_int8_layers=True)
    artifact = inductor_frontend.capture(_exported(model), model.args, options=fused)
    level = torch.backends.cpu.get_cpu_capability().lower().replace("default", "generic")
    memory = MEMORY_PASSES.replace("use-out-variants", "use-out-variants{runtime=native}")
    planned = run_on_artifact(artifact, f"pack-constants{{level={level},rounds_rows=true}},{memory}")
    options = CppOptions(runtime="native", persistent_buffers=True)
    cpp_wrapper.build(planned, folder / "native.so", options)


KINDS: Mapping[str, Callable[[BenchModel, Path], None]] = {
    "case": write_case,
    "onnx": _onnx,
    "onnx_compressed": _onnx_compressed,
    "onnxruntime": _onnxruntime,
    "onnxruntime_int8": _onnxruntime_int8,
    "openvino": _openvino,
    "executorch": _executorch,
    "executorch_int8": _executorch_int8,
    "aotinductor": _aotinductor,
    "libtorch": _libtorch,
    "native": _native,
}


def main(argv: list[str]) -> None:
    """Exports, and prints seconds."""
    name, kind, folder = argv
    torch.set_num_threads(1)
    made = make(name, in_form=not kind.endswith(_WITHOUT_FORM))
    begin = time.perf_counter()
    with torch.no_grad():
        KINDS[kind.removesuffix(_WITHOUT_FORM)](made, Path(folder))
    print(json.dumps({"seconds": time.perf_counter() - begin}))


if __name__ == "__main__":
    main(sys.argv[1:])
