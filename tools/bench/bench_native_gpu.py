"""Native libraries on a GPU against libraries over libtorch, in one run.

Usage: `python -m tools.bench.bench_native_gpu [--write] [--rounds N] [MODEL...]`. Prints the times of calls, until a call has
finished, and of a process from its start to its first result; `--write` writes `docs/benchmarks/native_gpu.md`, prediction
first. The native side has attention as a kernel of the program, the one over libtorch torch's own (flash or memory-efficient),
each CUDA graphs and planned memory. Sides alternate. "libtorch, kernel" is the native side's program over libtorch; "native,
kernels" has matmuls as kernels of the program, too, untuned, and loads no cuBLAS.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

import cpp_wrapper
import wrapper_ir_native
from cpp_wrapper import CppOptions
from cpp_wrapper._compat import torch_library_dir
from inductor_frontend import capture
from tools.bench.gpu_calls import Model, call_seconds
from tools.bench.native.gpu_models import MODELS, Case
from tools.bench.pages import command_line, page, publish, table
from tools.bench.timing import alternate, median_ratio
from wrapper_ir.artifact import Artifact
from wrapper_ir_passes.pipeline import run_on_artifact

PREDICTION = """\
Written before the first run. A call of GPT-2 small on 64 tokens is one graph where it was 13, so that the host launches once:
0.7 of the library over libtorch. A decode step reads 2.5 GB of weights, which takes both sides the same 0.6 ms; 16 calls of
attention leave the host's path: 0.9. A process starts without opening libtorch (seconds), so that it takes the driver's time
alone: 0.25.

Matmuls as kernels of the program came later. Before their first run: a model of the device chooses blocks, so that 64 tokens
take 0.85 of libtorch's library. Products of one row read weights at the speed of memory, where cuBLAS is slower: 0.7 for GPT-2,
0.65 for Llama. The process takes what templates took, 0.31, and less where few kernels are loaded: 0.29."""
OUTCOME = """\
Calls of native libraries took 0.80 to 0.88, where 0.7 and 0.9 were expected. The same program over libtorch takes 40 us less (0.71 to
0.84): calls of native libraries from Python pass ctypes and DLPack, those over libtorch a path in C. With matmuls as untuned
kernels of the program, calls take 0.62, 0.66 and 0.82: less than expected for GPT-2. Llama reads 2.5 GB, 0.6 ms of 1.0.

A process with cuBLAS starts in 0.55 instead of 0.25. The driver's context takes 0.11 s of 0.42 s and cuBLASLt some 0.14 s: it is
opened, and loads its kernels in the first call. Without cuBLAS the whole takes 0.21 s, 0.27 of libtorch's, where 0.29 was
expected: pages of the weights are read while the driver makes its context."""
_GRAPHS = "cuda-graphs{own_memory=true},plan-memory"
_LIBTORCH, _NATIVE, _KERNELS, _WHOLE = "libtorch", "native", "native, kernels", "libtorch, kernel"
_NATIVE_SIDES = (_NATIVE, _KERNELS, _WHOLE)
_FOLDER = Path(__file__).parent / "native"


def _artifacts(case: Case) -> Mapping[str, Artifact]:
    model, args = case
    kernels = run_on_artifact(capture(model, args), f"attention-kernels,{_GRAPHS}")
    matmuls = run_on_artifact(capture(model, args), f"matmul-kernels,attention-kernels,{_GRAPHS}")
    # torch's dispatcher in C++ cannot return what cuDNN's attention does
    with sdpa_kernel([SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]):
        today = run_on_artifact(capture(model, args), _GRAPHS)
    return {_LIBTORCH: today, _NATIVE: kernels, _KERNELS: matmuls, _WHOLE: kernels}


def _build(case: Case, folder: Path) -> Mapping[str, Path]:
    made = {}
    for side, artifact in _artifacts(case).items():
        is_native = side.startswith("native")
        options = CppOptions(runtime="native") if is_native else CppOptions(persistent_buffers=True)
        file = f"{side.replace(', ', '_')}.{'so' if is_native else 'pt2'}"
        made[side] = cpp_wrapper.build(artifact, folder / file, options)
    return made


def _seconds(run: Model, args: tuple[torch.Tensor, ...]) -> float:
    return call_seconds(run, args, 30)[0]


def _calls(case: Case, paths: Mapping[str, Path], rounds: int) -> list[str]:
    model, args = case
    sides: dict[str, Model] = {side: cpp_wrapper.load(path) for side, path in paths.items()}
    with torch.no_grad():
        want = model(*args)
    for side, run in sides.items():
        for _ in range(6):
            result = run(*args)
        worst = ((result - want).abs().max() / want.abs().max()).item()
        print(f"  {side}: largest difference from eager {worst:.4f} of the largest logit", flush=True)
        if not worst < 0.05:
            raise SystemExit(f"{side}: wrong result")
    timers: Mapping[str, Callable[[], float]] = {
        side: partial(_seconds, run, args) for side, run in sides.items()
    }
    seconds = alternate(timers, rounds)
    cells = [f"{min(seconds[side]) * 1e6:.0f}" for side in sides]
    return [*cells, *(f"{median_ratio(seconds[side], seconds[_LIBTORCH]):.2f}" for side in _NATIVE_SIDES)]


# --- start


def _compile(name: str, folder: Path, *flags: str) -> Path:
    output = folder / name
    subprocess.run(
        [
            "g++",
            "-std=c++17",
            "-O1",
            str(_FOLDER / f"{name}.cpp"),
            "-o",
            str(output),
            *flags,
            "-ldl",
            "-pthread",
        ],
        check=True,
    )
    return output


def _start(paths: Mapping[str, Path], tokens: int, folder: Path, rounds: int) -> list[str]:
    """Seconds from a process's start to its first result, each side a C++ program, and ratios."""
    libraries = torch_library_dir()
    runner = Path(cpp_wrapper.__file__).parent / "cmake" / "include"
    cuda = ("-Wl,--no-as-needed", "-ltorch_cuda", "-Wl,--as-needed", "-Wl,--allow-shlib-undefined")
    flags = (f"-I{runner}", f"-L{libraries}", f"-Wl,-rpath,{libraries}", *cuda, "-ltorch_cpu", "-lc10")
    native = _compile("gpu_native", folder, f"-I{wrapper_ir_native.include_path()}")
    programs = {_LIBTORCH: _compile("gpu_libtorch", folder, *flags), _NATIVE: native, _KERNELS: native}

    def seconds(side: str) -> float:
        begin = time.perf_counter()
        command = [str(programs[side]), str(paths[side]), str(tokens)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            first = process.stdout.readline()
            taken = time.perf_counter() - begin
            if not first:
                raise SystemExit(f"{side}: {process.stderr.read()[-2000:]}")
        return taken

    times = alternate({side: partial(seconds, side) for side in programs}, rounds)
    cells = [f"{statistics.median(times[side]):.2f}" for side in programs]
    sides = (_NATIVE, _KERNELS)
    for side in sides:
        words = [str(programs[side]), str(paths[side]), str(tokens)]
        for _ in range(3):
            begin = time.perf_counter()
            done = subprocess.run(words, capture_output=True, text=True, env={**os.environ, "TIMES": "1"})
            whole = time.perf_counter() - begin
            print(f"  {side}: {' | '.join(done.stderr.splitlines())} | process {whole:.3f}", flush=True)
    return [*cells, *(f"{median_ratio(times[side], times[_LIBTORCH]):.2f}" for side in sides)]


def _floor(folder: Path) -> str:
    """The seconds of parts that the driver and cuBLASLt need in each process, the best of a few."""
    program = _compile("gpu_floor", folder)
    runs = [
        subprocess.run([str(program)], capture_output=True, text=True, check=True).stdout for _ in range(5)
    ]
    parts: dict[str, list[float]] = {}
    for line in "".join(runs).splitlines():
        name, seconds = line.split()
        parts.setdefault(name, []).append(float(seconds))
    return ", ".join(f"{name} {min(seconds):.3f}" for name, seconds in parts.items())


def main(argv: Sequence[str] | None = None) -> None:
    """Prints the page, and writes it with `--write`."""
    parser = command_line(__doc__)
    parser.add_argument("models", nargs="*", help="substrings of the models' names")
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args(argv)
    calls, starts = [], []
    for name, make in MODELS.items():
        if options.models and not any(word in name for word in options.models):
            continue
        print(name, flush=True)
        case = make()
        with tempfile.TemporaryDirectory() as text:
            folder = Path(text)
            paths = _build(case, folder)
            calls.append([name, *_calls(case, paths, options.rounds)])
            if len(case[1]) == 1 and case[1][0].shape[1] > 1:
                starts.append([name, *_start(paths, case[1][0].shape[1], folder, options.rounds)])
        del case
        torch.cuda.empty_cache()
    device = torch.cuda.get_device_name()
    sides = (_LIBTORCH, *_NATIVE_SIDES)
    heads = [*(f"{side}, us" for side in sides), *(f"{side} / {_LIBTORCH}" for side in _NATIVE_SIDES)]
    text = table(["model, bfloat16", *heads], calls)
    if starts:
        text += "\n\nA process until its first result, each a C++ program, seconds:\n\n"
        native = (_NATIVE, _KERNELS)
        text += table(["model", _LIBTORCH, *native, *(f"{side} / {_LIBTORCH}" for side in native)], starts)
        with tempfile.TemporaryDirectory() as folder_text:
            text += f"\n\nA process that only opens the driver and cuBLASLt, seconds: {_floor(Path(folder_text))}."
    command = " ".join(["python -m tools.bench.bench_native_gpu --write", *options.models])
    publish(
        "native_gpu",
        page(
            "Native libraries on a GPU",
            command,
            ("Prediction", PREDICTION),
            (device, text),
            ("Outcome", OUTCOME),
        ),
        options,
    )


if __name__ == "__main__":
    main(sys.argv[1:])
