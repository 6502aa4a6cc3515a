"""One export of a model in a separate process: `python -m tools.bench.native.exports MODEL KIND FOLDER`.

| kind | writes into FOLDER |
| --- | --- |
| `case` | `case.txt`, inputs and eager's results as raw bytes (`side.h` states the form), `about.json` |
| `onnx` | `model.onnx`; weights beside it |
| `onnxruntime` | `ort.onnx`: `model.onnx` as ONNX Runtime has optimised it on this machine |
| `openvino` | `openvino.xml` and `.bin`, from `model.onnx` |
| `executorch` | `model.pte`, lowered to XNNPACK |
| `aotinductor` | `aotinductor.pt2` |
| `libtorch` | `libtorch.pt2`: ours, planned, with persistent buffers |
| `native` | `native.so`: ours without torch, packed, planned |

Prints a line of JSON: the seconds that it took.
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

import cpp_wrapper
import inductor_frontend
from cpp_wrapper import CppOptions
from tools.bench.native.models import MODELS, BenchModel
from wrapper_ir_passes import MEMORY_PASSES, run_pipeline

_DTYPES = {torch.float32: "f32", torch.int64: "i64"}
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
    values = {id(t): t for t in (*model.module.parameters(), *model.module.buffers())}.values()
    about = {"weights": sum(value.nbytes for value in values)}
    (folder / "about.json").write_text(json.dumps(about), encoding="utf-8")


def _exported(model: BenchModel) -> Exported:
    return torch.export.export(model.module, model.args, strict=False)


def _onnx(model: BenchModel, folder: Path) -> None:
    results = [f"out{index}" for index in range(len(model.module(*model.args)))]
    program = torch.onnx.export(
        _exported(model), input_names=input_names(model), output_names=results, dynamo=True, verbose=False
    )
    assert program is not None
    program.save(str(folder / "model.onnx"), external_data=True)


def _onnxruntime(model: BenchModel, folder: Path) -> None:
    import onnxruntime  # type: ignore[import-not-found]  # in the benchmark's own folder of packages

    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(folder / "ort.onnx")
    options.add_session_config_entry("session.optimized_model_external_initializers_file_name", "ort.bin")
    options.log_severity_level = 3
    onnxruntime.InferenceSession(str(folder / "model.onnx"), options, providers=["CPUExecutionProvider"])


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


def _aotinductor(model: BenchModel, folder: Path) -> None:
    path = str(folder / "aotinductor.pt2")
    torch._inductor.aoti_compile_and_package(_exported(model), package_path=path)


def _libtorch(model: BenchModel, folder: Path) -> None:
    artifact = inductor_frontend.capture(_exported(model), model.args)
    planned = replace(artifact, program=run_pipeline(artifact.program, MEMORY_PASSES))
    cpp_wrapper.build(planned, folder / "libtorch.pt2", CppOptions(persistent_buffers=True))


KINDS: Mapping[str, Callable[[BenchModel, Path], None]] = {
    "case": write_case,
    "onnx": _onnx,
    "onnxruntime": _onnxruntime,
    "openvino": _openvino,
    "executorch": _executorch,
    "aotinductor": _aotinductor,
    "libtorch": _libtorch,
}


def main(argv: list[str]) -> None:
    """Exports, and prints seconds."""
    name, kind, folder = argv
    torch.set_num_threads(1)
    made = MODELS[name].make()
    made.module.eval().requires_grad_(requires_grad=False)
    begin = time.perf_counter()
    with torch.no_grad():
        KINDS[kind](made, Path(folder))
    print(json.dumps({"seconds": time.perf_counter() - begin}))


if __name__ == "__main__":
    main(sys.argv[1:])
