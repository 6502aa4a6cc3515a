"""Float32 matrix products of the native runtime against other libraries, on one thread.

Usage: `python -m tools.bench.bench_native_products [--peers FOLDER] [--shapes 64x256x768,...] [--rounds N]`.
Prints times in microseconds, and ratios of ours over each side's. FOLDER contains the packages onnxruntime,
onnx and openvino (`pip install --target FOLDER ...`); sides that are not installed are named and skipped.
OpenBLAS, BLIS, libxsmm, Eigen and XNNPACK come from the system (`libopenblas-dev`, `libblis-dev`, `libxsmm-dev`,
`libeigen3-dev`, `libxnnpack-dev`), or from folders in LD_LIBRARY_PATH, LIBRARY_PATH and CPLUS_INCLUDE_PATH.

Weights are constants: ONNX Runtime, OpenVINO and XNNPACK pack them when they open a model, ours are packed
beforehand. The others receive them in rows, MKL (through torch) in columns too: the faster counts. The clock is
the thread's own. A call without work (1 x 16 x 16) is subtracted from sides that are called from Python.
"""

from __future__ import annotations

import argparse
import ctypes
import importlib
import math
import sys
import tempfile
import time
from pathlib import Path

import torch

from tools.bench.native.product_sides import (
    DRIVERS,
    Case,
    Run,
    Side,
    blas_sides,
    build,
    driver_sides,
    library_sizes,
    make_case,
    native_sides,
)
from tools.bench.pages import table

SHAPES = (
    *((64, k, n) for k, n in ((256, 768), (256, 256), (256, 1024), (1024, 256))),
    *((32, k, n) for k, n in ((384, 1152), (384, 384), (384, 1536), (1536, 384))),
    *((m, k, n) for m in (16, 1024) for k, n in ((384, 384), (384, 1536), (1536, 384))),
    (8, 64, 64),
    *((m, k, n) for m in (64, 1) for k, n in ((768, 2304), (768, 768), (768, 3072), (3072, 768), (768, 50257))),
)  # fmt: skip


def mkl_side(columns: bool) -> Side:
    """MKL through torch, with weights in rows or columns."""

    def side(case: Case) -> Run:
        m, _, n = case.size
        result = torch.empty(m, n)
        weights = case.weights.t().contiguous().t() if columns else case.weights

        def run() -> int:
            torch.addmm(case.bias, case.rows, weights, out=result)
            return 1

        return run

    return side


def _model(case: Case) -> bytes:
    onnx = importlib.import_module("onnx")
    m, k, n = case.size
    kind = onnx.TensorProto.FLOAT
    values = [
        onnx.numpy_helper.from_array(t.numpy(), name) for t, name in ((case.weights, "w"), (case.bias, "b"))
    ]
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("Gemm", ["x", "w", "b"], ["y"])],
        "product",
        [onnx.helper.make_tensor_value_info("x", kind, [m, k])],
        [onnx.helper.make_tensor_value_info("y", kind, [m, n])],
        values,
    )
    opset = [onnx.helper.make_opsetid("", 17)]
    text: bytes = onnx.helper.make_model(graph, opset_imports=opset, ir_version=9).SerializeToString()
    return text


def onnxruntime_side() -> Side:
    """MLAS through ONNX Runtime, over bound memory."""
    runtime = importlib.import_module("onnxruntime")

    def side(case: Case) -> Run:
        options = runtime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        session = runtime.InferenceSession(_model(case), options)
        m, _, n = case.size
        result = torch.empty(m, n).numpy()
        binding = session.io_binding()
        binding.bind_ortvalue_input("x", runtime.OrtValue.ortvalue_from_numpy(case.rows.numpy()))
        binding.bind_ortvalue_output("y", runtime.OrtValue.ortvalue_from_numpy(result))

        def run() -> int:
            session.run_with_iobinding(binding)
            return 1

        return run

    return side


def openvino_side() -> Side:
    """The kernels of oneDNN that OpenVINO chooses."""
    runtime = importlib.import_module("openvino")
    core = runtime.Core()
    settings = {"INFERENCE_NUM_THREADS": 1, "NUM_STREAMS": 1, "INFERENCE_PRECISION_HINT": "f32"}

    def side(case: Case) -> Run:
        compiled = core.compile_model(core.read_model(_model(case)), "CPU", settings)
        request = compiled.create_infer_request()
        request.set_input_tensor(runtime.Tensor(case.rows.numpy(), shared_memory=True))

        def run() -> int:
            request.infer()
            return 1

        return run

    return side


def peer_sides() -> dict[str, Side]:
    """Sides of packages that are installed."""
    found: dict[str, Side] = {}
    for name, make in (("onnxruntime", onnxruntime_side), ("openvino", openvino_side)):
        try:
            importlib.import_module("onnx")
            found[name] = make()
        except ImportError:
            print(f"{name} is skipped: it or onnx is not installed (--peers)")
    return found


def measure(runs: dict[str, Run], rounds: int, seconds: float = 0.05) -> dict[str, float]:
    """The shortest time of a product of each side, in alternating rounds. OpenVINO computes in other threads."""
    best = dict.fromkeys(runs, math.inf)
    for run in runs.values():
        run()
    for _ in range(rounds):
        for name, run in runs.items():
            clock = time.process_time if name == "openvino" else time.thread_time
            end = time.perf_counter() + seconds
            while time.perf_counter() < end:
                start = clock()
                count = run()
                best[name] = min(best[name], (clock() - start) / count)
    return best


def _peak(library: ctypes.CDLL) -> float:
    library.run_peak.restype = ctypes.c_int64
    times, best = 20_000, math.inf
    for _ in range(50):
        start = time.thread_time()
        operations = library.run_peak(ctypes.c_int64(times))
        best = min(best, time.thread_time() - start)
    return float(operations * times * 240 / best)


def compare(sides: dict[str, Side], shapes: list[tuple[int, int, int]], rounds: int, peak: float) -> str:
    """A table of times and ratios, with the geometric means of ratios last."""
    empty = make_case(1, 16, 16)
    in_c = ("ours", *(driver.name for driver in DRIVERS))
    calls = {name: 0.0 if name.startswith(in_c) else seconds for name, seconds in
             measure({name: side(empty) for name, side in sides.items()}, rounds).items()}  # fmt: skip
    others = [name for name in sides if name != "ours"]
    logs: dict[str, list[float]] = {name: [] for name in [*others, "best"]}
    rows = []
    for shape in shapes:
        case = make_case(*shape)
        times = measure({name: side(case) for name, side in sides.items()}, rounds)
        times = {name: seconds - calls[name] for name, seconds in times.items()}
        ratios = {name: times["ours"] / times[name] for name in others}
        ratios["best"] = max(ratio for name, ratio in ratios.items() if name != "ours, rows")
        for name, ratio in ratios.items():
            logs[name].append(math.log(ratio))
        share = 2 * math.prod(shape) / times["ours"] / peak
        cells = (f"{times[name] * 1e6:.1f} ({ratios[name]:.2f})" for name in others)
        rows.append(
            [
                "x".join(map(str, shape)),
                f"{times['ours'] * 1e6:.1f}",
                f"{share:.2f}",
                *cells,
                f"{ratios['best']:.2f}",
            ]
        )
        print(*rows[-1], flush=True)
    means = {name: f"{math.exp(sum(values) / len(values)):.2f}" for name, values in logs.items()}
    rows.append(["geometric mean", "", "", *(means[name] for name in others), means["best"]])
    return table(["m x k x n", "ours, us", "of peak", *others, "best of the others"], rows)


def read_shapes(text: str) -> list[tuple[int, int, int]]:
    """Reads `64x256x768,8x64x64`."""
    sizes = [[int(size) for size in shape.split("x")] for shape in text.split(",")]
    return [(m, k, n) for m, k, n in sizes]


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--peers", type=Path, help="a folder with the packages onnxruntime, onnx and openvino"
    )
    parser.add_argument("--shapes", help="as MxKxN, separated by commas")
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    if options.peers is not None:
        sys.path.append(str(options.peers))
    torch.set_num_threads(1)
    shapes = read_shapes(options.shapes) if options.shapes else list(SHAPES)
    with tempfile.TemporaryDirectory() as folder:
        library = build(Path(folder))
        sides = native_sides(library) | {"MKL, rows": mkl_side(False), "MKL, columns": mkl_side(True)}
        sides |= blas_sides() | driver_sides(Path(folder))
        peak = _peak(library)
        print(f"{torch.backends.cpu.get_cpu_capability()}, peak of a core {peak / 1e9:.0f} GFLOP/s")
        print(f"Bytes: {library_sizes()}")
        print(compare(sides | peer_sides(), shapes, options.rounds, peak))


if __name__ == "__main__":
    main()
