"""`torch.compile` on a GPU: calls, training steps and first calls, stock and ours, with and without CUDA
graphs.

Usage: `python -m tools.bench.bench_gpu [--write] [calls|host|first ...]`. Prints tables; `--write` also
writes `docs/benchmarks/gpu.md`, prediction first; parts that are not selected keep the page's text.

"calls": each model is compiled in a separate process, all at the same time, and measured one at a time when
all are compiled, sides in alternating rounds. Results and losses are compared with eager mode's. The memory
of a training step is measured in a process for each side. "host": the host time of a call by part
(`tools.bench.call_parts`). "first": from the call of `torch.compile` to the end of the first call, after
torch, the device and the model are loaded, with empty cache folders, and with those that an earlier process
has filled. Each measurement is a process, and the two sides of a model run at the same time. Our packages
then have bytecode, as pip installs them (and torch), also in a checkout or an installation without it.
"""

from __future__ import annotations

import argparse
import compileall
import copy
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from filelock import FileLock
from torch import Tensor, nn

import inductor_frontend
import py_wrapper
from tools.bench import training_steps
from tools.bench.bench_cpp_gpu import gpt2, mlp
from tools.bench.bench_memory_gpu import gpt2_small
from tools.bench.call_parts import PARTS, host_parts
from tools.bench.gpu_calls import Model, call_seconds, recorded, row_seconds
from tools.bench.gpu_page import OUTCOME, PREDICTION
from tools.bench.pages import command_line, page, publish, section_of, table
from tools.bench.processes import in_fresh_process
from tools.bench.timing import alternate
from tools.bench.training_steps import step_memory, training_step
from wrapper_ir_passes.pipeline import run_on_artifact

_ROUNDS, _CALLS = 15, 10
_ROW = 50
"""Calls that are queued without waiting for any."""
_TOLERANCE = 2e-2
"""Matmuls use TensorFloat-32."""

Made = tuple[nn.Module, tuple[Any, ...]]  # Any: a model's arguments
Settings = Mapping[str, Any]  # Any: keywords of torch.compile


def tiny() -> Made:
    """A layer, its activation and its norm."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.LayerNorm(16)).cuda()
    return model, (torch.randn(4, 16, device="cuda"),)


def large() -> Made:
    """GPT-2 small on 8 x 256 tokens."""
    ids = torch.randint(0, 50257, (8, 256), generator=torch.Generator().manual_seed(0))
    return gpt2_small().eval(), (ids.cuda(),)


MODELS: Mapping[str, Callable[[], Made]] = {
    "a linear layer, ReLU, LayerNorm": tiny,
    "48 x (linear 64, ReLU), batch 8": mlp,
    "GPT-2 small, 1 x 64 tokens": gpt2,
    "GPT-2 small, 8 x 256 tokens": large,
}
TRAINING = training_steps.NAME
OURS: Settings = {"backend": "wrapper_ir"}
SIDES: Mapping[str, Settings] = {
    "stock": {},
    "stock, reduce-overhead": {"mode": "reduce-overhead"},
    "ours": OURS,
    "ours, FX": {**OURS, "options": {"emitter": "fx"}},
    "ours, memory not planned": {**OURS, "options": {"planned_memory": False}},
    "ours, kept buffers": {**OURS, "options": {"persistent_buffers": True}},
    "ours, reduce-overhead": {**OURS, "mode": "reduce-overhead"},
    "ours, FX, reduce-overhead": {**OURS, "options": {"emitter": "fx", "cuda_graphs": 16}},
}
_NO_GUARDS: Settings = {"guard_filter_fn": torch.compiler.skip_guard_on_all_nn_modules_unsafe}
UNGUARDED_SIDES: Mapping[str, Settings] = {
    "stock, reduce-overhead, modules not guarded": {"options": {"triton.cudagraphs": True, **_NO_GUARDS}},
    "ours, reduce-overhead, modules not guarded": {**OURS, "options": {"cuda_graphs": 16, **_NO_GUARDS}},
}
"""With an option of torch's, for callers that do not change their modules."""
SPLIT_SIDES: Mapping[str, Settings] = {
    "ours, split matmuls": {**OURS, "options": {"matmuls": "split"}},
    "ours, reduce-overhead, split matmuls": {**OURS, "options": {"matmuls": "split", "cuda_graphs": 16}},
}
"""The model with matmuls to split: those of the 48 layers sum 64 elements, and 8 x 256 tokens are too many
rows.
"""
STEPS = ("stock", "stock, reduce-overhead", "ours", "ours, FX", "ours, reduce-overhead")
"""The sides of a training step."""
REPLAY = "replay of what ours queues"
CAPTURED, CAPTURED_REPLAY = "ours, captured, graphs", "replay of what that queues"
"""Calls without torch.compile, and thus without guards."""


# --- calls of one model, in its process


def _logits(output: Any) -> Tensor:  # Any: a tensor, or transformers' results
    tensor: Tensor = output if isinstance(output, Tensor) else output[0]
    return tensor


def _made(model: nn.Module, args: tuple[Any, ...], settings: Settings) -> Model:
    run: Model = torch.compile(copy.deepcopy(model), **settings)
    return _checked(run, model, args)


def _captured(model: nn.Module, args: tuple[Any, ...]) -> Model:
    """Returns the model as a separate program, whose weights are constants, with CUDA graphs."""
    artifact = run_on_artifact(inductor_frontend.capture(model, args), "cuda-graphs,plan-memory")
    return py_wrapper.compile(artifact)


def _checked(run: Model, model: nn.Module, args: tuple[Any, ...]) -> Model:
    for _ in range(4):  # the first calls of a graph are not replays
        logits = _logits(run(*args)).clone()
    torch.testing.assert_close(logits, _logits(model(*args)), rtol=_TOLERANCE, atol=_TOLERANCE)
    return run


def _calls(name: str, runs: dict[str, Model], failed: dict[str, str]) -> None:
    model, args = MODELS[name]()
    runs["eager"] = partial(model, *args)
    sides = {**SIDES, **UNGUARDED_SIDES, **(SPLIT_SIDES if MODELS[name] is gpt2 else {})}
    for side, settings in sides.items():
        try:
            runs[side] = partial(_made(model, args, settings), *args)
            if side == "ours":
                runs[REPLAY] = recorded(runs[side], ())
        except Exception as error:  # a side that fails must not end the run
            failed[side] = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
    try:
        runs[CAPTURED] = partial(_checked(_captured(model, args), model, args), *args)
        runs[CAPTURED_REPLAY] = recorded(runs[CAPTURED], ())
    except Exception as error:  # as above
        failed[CAPTURED] = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"


def _training(runs: dict[str, Model], failed: dict[str, str], caches: str) -> dict[str, dict[str, float]]:
    """Creates the sides; returns the bytes of each, in a separate process: weights, optimizer state, CUDA
    graphs, and the peak of a step.
    """
    model = gpt2_small()
    want: list[float] = []
    sides = ("eager", *STEPS)
    for side in sides:
        step = training_step(model, None if side == "eager" else SIDES[side])
        try:
            losses = [step().item() for _ in range(5)]
            want = want or losses
            torch.testing.assert_close(
                torch.tensor(losses), torch.tensor(want), rtol=_TOLERANCE, atol=_TOLERANCE
            )
            runs[side] = step
        except Exception as error:  # as above
            failed[side] = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
    with ThreadPoolExecutor(len(sides)) as pool:
        results = {
            side: pool.submit(in_fresh_process, ("-m", __spec__.name, "--memory", side), f"{caches}/{number}")
            for number, side in enumerate(sides)
        }
        return {side: each.result() for side, each in results.items()}


def _one(name: str, lock: Path) -> dict[str, Any]:
    """Prints the output of a process: seconds of each side until finished and until returned, and of a call
    in a row, by round.
    """
    runs: dict[str, Model] = {}
    failed: dict[str, str] = {}
    memory: dict[str, dict[str, float]] = {}
    if name == TRAINING:
        memory = _training(runs, failed, f"{lock.parent}/memory")
    else:
        with torch.no_grad():
            _calls(name, runs, failed)
    lock.with_name(f"{name}.ready").touch()
    while not lock.with_name("go").exists():
        time.sleep(0.1)
    with FileLock(lock), torch.set_grad_enabled(name == TRAINING):
        calls = 4 if name == TRAINING else _CALLS
        times = alternate(
            {side: partial(call_seconds, run, (), calls) for side, run in runs.items()}, _ROUNDS
        )
        rows = {side: partial(row_seconds, run, (), _ROW) for side, run in runs.items()}
        in_a_row = {} if name == TRAINING else alternate(rows, _ROUNDS // 3)
    return {"name": name, "failed": failed, "times": times, "in a row": in_a_row, "memory": memory}


def _measure_calls(limit: float) -> str:
    deadline = time.monotonic() + limit
    texts: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        running = {
            name: subprocess.Popen(
                [sys.executable, "-W", "ignore", "-m", __spec__.name, "--lock", f"{folder}/lock", "--one", name],
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            )
            for name in [*list(MODELS)[1:], TRAINING]
        }  # fmt: skip
        ready = {name: Path(folder, f"{name}.ready") for name in running}
        while time.monotonic() < deadline and not all(
            ready[name].exists() or process.poll() is not None for name, process in running.items()
        ):
            time.sleep(0.2)
        Path(folder, "go").touch()
        for name, process in running.items():
            try:
                out, err = process.communicate(timeout=max(1.0, deadline - time.monotonic()))
                last = (err.strip().splitlines() or ["no message"])[-1]
                texts.append(
                    _calls_table(json.loads(out.splitlines()[-1])) if out else f"### {name}\n\n{last}"
                )
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()
                texts.append(f"### {name}\n\nNot within the time limit.")
            print(texts[-1], flush=True)
    return "\n\n".join(texts)


def _calls_table(result: Mapping[str, Any]) -> str:
    times: Mapping[str, list[tuple[float, float]]] = result["times"]
    rows: list[tuple[str, ...]] = []
    for side, each in times.items():
        stock = times.get("stock")
        ratio = "" if stock is None else f"{statistics.median(a[0] / b[0] for a, b in zip(each, stock)):.2f}"
        whole, host = (min(column) * 1e6 for column in zip(*each))
        rows.append((side, f"{whole:.0f}", f"{host:.0f}", ratio))
    heads = ["side", "until finished, us", "until returned, us", "of stock"]
    if result["in a row"]:
        heads.append("in a row, us")
        rows = [(*row, f"{min(result['in a row'][row[0]]) * 1e6:.0f}") for row in rows]
    if result["memory"]:
        heads += ["reserved, MiB", "allocated, MiB"]
        kinds = "reserved", "allocated"
        rows = [(*row, *(f"{result['memory'][row[0]][kind] / 2**20:.0f}" for kind in kinds)) for row in rows]
    text = table(heads, rows)
    failures = "".join(f"\n\n{side}: {why}" for side, why in result["failed"].items())
    return f"### {result['name']}\n\n{text}{failures}"


# --- parts of a call


def _measure_host() -> str:
    rows = []
    with torch.no_grad():
        for name in list(MODELS)[1:3]:
            model, args = MODELS[name]()
            parts = host_parts(model, args, lambda run, calls: call_seconds(run, (), calls)[1])
            rows.append((name, *(f"{seconds * 1e6:.0f}" for seconds in parts.values())))
            print(*rows[-1], flush=True)
    return table(("model", *PARTS, "whole"), rows)


# --- first calls


def _first_call(name: str, side: str) -> dict[str, float]:
    """Seconds of this process's first call."""
    model, args = MODELS[name]()
    torch.cuda.synchronize()
    begin = time.perf_counter()
    with torch.no_grad():
        torch.compile(model, **SIDES[side])(*args)
    torch.cuda.synchronize()
    return {"seconds": time.perf_counter() - begin}


def _with_bytecode() -> None:
    """Compiles bytecode of our packages if it is missing: users of an installed package never compile it in a
    first call.
    """
    for name in (
        "wrapper_ir",
        "wrapper_ir_passes",
        "wrapper_ir_lowering",
        "wrapper_ir_runtime",
        "wrapper_ir_tools",
        "wrapper_ir_torch",
        "inductor_frontend",
        "py_wrapper",
        "triton_runtime",
    ):
        compileall.compile_dir(Path(str(import_module(name).__file__)).parent, quiet=1)


def _measure_first(limit: float) -> str:
    _with_bytecode()
    rows = []
    deadline = time.monotonic() + limit
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(2) as pool:
        for name in MODELS:
            if time.monotonic() > deadline:
                rows.append((name, "", "", "", "no time was left"))
                continue
            for caches in ("fresh", "warm"):
                pair = {
                    side: pool.submit(
                        in_fresh_process,
                        ("-m", __spec__.name, "--first", name, "--side", side),
                        f"{folder}/{side}-{list(MODELS).index(name)}",
                    )
                    for side in ("stock", "ours")
                }
                stock, ours = (one.result()["seconds"] for one in pair.values())
                rows.append((name, caches, f"{stock:.2f}", f"{ours:.2f}", f"{ours / stock:.2f}"))
                print(*rows[-1], flush=True)
    return table(("model", "caches", "stock, s", "ours, s", "ours / stock"), rows)


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = command_line(__doc__)
    parser.add_argument("--limit", type=float, default=600.0, metavar="SECONDS")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--lock", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--first", help=argparse.SUPPRESS)
    parser.add_argument("--memory", help=argparse.SUPPRESS)
    parser.add_argument("--side", help=argparse.SUPPRESS)
    parser.add_argument("parts", nargs="*", default=["calls", "host", "first"], metavar="calls|host|first")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> None:
    """Measures and prints, or writes the page."""
    args = _arguments(argv)
    torch.set_float32_matmul_precision("high")
    torch._dynamo.config.recompile_limit = (
        64  # each side compiles the same functions; past the limit they run in eager mode
    )
    if args.memory:
        print(json.dumps(step_memory(SIDES.get(args.memory))))
        return
    if args.one or args.first:
        print(json.dumps(_one(args.one, args.lock) if args.one else _first_call(args.first, args.side)))
        return
    device = f"{torch.cuda.get_device_name()}, torch {torch.__version__}, {os.cpu_count()} processors."
    parts: Mapping[str, Callable[[], str]] = {
        "Calls": lambda: f"{device}\n\n{_measure_calls(args.limit)}",
        "Host": lambda: f"{device} Microseconds until a call has returned, by part.\n\n{_measure_host()}",
        "First calls": lambda: f"{device}\n\n{_measure_first(args.limit)}",
    }
    sections = [
        (title, measure() if title.split()[0].lower() in args.parts else section_of("gpu", title))
        for title, measure in parts.items()
    ]
    command = "python -m tools.bench.bench_gpu --write"
    text = page(
        "torch.compile on a GPU", command, ("Prediction", PREDICTION), *sections, ("Outcome", OUTCOME)
    )
    publish("gpu", text, args)


if __name__ == "__main__":
    main()
