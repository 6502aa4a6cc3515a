"""Calls of C++ libraries on a GPU, against AOTInductor, Inductor's Python wrapper and graph replay, in one run.

Usage: `python -m tools.bench.bench_cpp_gpu [--write]`. Prints a table a model; `--write` also writes `docs/benchmarks/cpp_gpu.md`,
prediction first. Each side is timed until a call has finished, in rounds that take turns; a side that fails is named and left out.
AOTInductor's libraries may need the system's libstdc++ (`LD_PRELOAD`).
"""

from __future__ import annotations

import dataclasses
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch._inductor.cpu_vec_isa import pick_vec_isa

import cpp_wrapper
import inductor_frontend
from tools.bench.bench_memory_gpu import gpt2_small
from tools.bench.pages import command_line, page, publish, table
from wrapper_ir.passes import PlanMemory

PREDICTION = """\
Written before the first measurement. Both models are bound by the host. AOTInductor spends most of a call in the allocator and in
launches of kernels through its own checks; a planned program of ours allocates once and launches by the driver alone, so a call
takes at most 0.7 of AOTInductor's. Nothing of ours falls below the replay of a graph."""

Model = Callable[..., Any]  # Any: arguments and results of a model
_ROUNDS, _CALLS = 15, 20


def mlp() -> tuple[nn.Module, tuple[Any, ...]]:
    """48 layers of width 64, on 8 rows."""
    torch.manual_seed(0)
    layers = [part for _ in range(48) for part in (nn.Linear(64, 64), nn.ReLU())]
    return nn.Sequential(*layers).cuda().eval(), (torch.randn(8, 64, device="cuda"),)


def gpt2() -> tuple[nn.Module, tuple[Any, ...]]:
    """GPT-2 small on 64 tokens."""
    ids = torch.randint(0, 50257, (1, 64), generator=torch.Generator().manual_seed(0))
    return gpt2_small().eval(), (ids.cuda(),)


def _ours(model: nn.Module, args: tuple[Any, ...], folder: Path, planned: bool, stock: bool) -> Model:
    artifact = inductor_frontend.capture(model, args)
    if planned:
        artifact = dataclasses.replace(artifact, program=PlanMemory().run(artifact.program))
    package = cpp_wrapper.build(artifact, folder / f"ours-{planned}-{stock}.pt2")
    program: Model = torch._inductor.aoti_load_package(str(package)) if stock else cpp_wrapper.load(package)
    return program


def _aoti(model: nn.Module, args: tuple[Any, ...], folder: Path) -> Model:
    exported = torch.export.export(model, args)
    package = torch._inductor.aoti_compile_and_package(exported, package_path=str(folder / "aoti.pt2"))
    program: Model = torch._inductor.aoti_load_package(package)
    return program


def _graph(run: Model, args: tuple[Any, ...]) -> Model:
    """A graph of the caller's own, replayed."""
    side = torch.cuda.Stream()  # type: ignore[no-untyped-call]  # torch's own
    with torch.cuda.stream(side):
        run(*args)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run(*args)
    return lambda *_: graph.replay()


def _makers(model: nn.Module, args: tuple[Any, ...], folder: Path) -> Mapping[str, Callable[[], Model]]:
    ours = [_Later(partial(_ours, model, args, folder, planned, stock)) for planned, stock in _KINDS]
    return {
        "eager": lambda: model,
        "ours": ours[0],
        "ours, planned": ours[1],
        "ours, planned, torch's loader": ours[2],
        "ours, planned, recorded by the caller": lambda: _graph(ours[1](), args),
        "torch.compile": lambda: torch.compile(model),
        "AOTInductor": lambda: _aoti(model, args, folder),
        "torch.compile, reduce-overhead": lambda: torch.compile(model, mode="reduce-overhead"),
    }


_KINDS = ((False, False), (True, False), (True, True))


class _Later:
    """Makes a side once."""

    def __init__(self, make: Callable[[], Model]) -> None:
        self._make = make
        self._made: Model | None = None

    def __call__(self) -> Model:
        if self._made is None:
            self._made = self._make()
        return self._made


def _sides(model: nn.Module, args: tuple[Any, ...], folder: Path) -> tuple[dict[str, Model], dict[str, str]]:
    """What can be called, and why the others cannot."""
    made: dict[str, Model] = {}
    failed: dict[str, str] = {}
    for name, make in _makers(model, args, folder).items():
        begin = time.perf_counter()
        try:
            run = make()
            for _ in range(5):
                run(*args)
            torch.cuda.synchronize()
            made[name] = run
            print(f"{name}: made in {time.perf_counter() - begin:.1f} s", flush=True)
        except Exception as error:  # a side that fails must not end the run
            failed[name] = f"{type(error).__name__}: {str(error).splitlines()[0][:200]}"
            print(f"{name}: {failed[name]}", flush=True)
    return made, failed


def _seconds(run: Model, args: tuple[Any, ...]) -> tuple[float, float]:
    """Seconds of a call until it has finished, and until it has returned, both the best of a few."""
    whole, host = [], []
    for _ in range(_CALLS):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        run(*args)
        host.append(time.perf_counter() - begin)
        torch.cuda.synchronize()
        whole.append(time.perf_counter() - begin)
    return min(whole), min(host)


def _measure(name: str, model: nn.Module, args: tuple[Any, ...]) -> str:
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        made, failed = _sides(model, args, Path(folder))
        times: dict[str, list[tuple[float, float]]] = {side: [] for side in made}
        for _ in range(_ROUNDS):
            for side, run in made.items():
                times[side].append(_seconds(run, args))
    peer = times.get("AOTInductor")
    rows: list[list[object]] = []
    for side, found in times.items():
        ratio = "" if peer is None else f"{statistics.median(a[0] / b[0] for a, b in zip(found, peer)):.2f}"
        best = [min(column) * 1e6 for column in zip(*found)]
        rows.append([side, f"{best[0]:.1f}", f"{best[1]:.1f}", ratio])
    rows += [[side, why, "", ""] for side, why in failed.items()]
    text = table(("side", "until finished, us", "until returned, us", "of AOTInductor"), rows)
    print(f"{name}\n{text}", flush=True)
    return text


def main(argv: Sequence[str] | None = None) -> None:
    """Measures and prints, or writes the page."""
    args = command_line(__doc__).parse_args(argv)
    torch.set_float32_matmul_precision("high")
    pick_vec_isa()  # torch's Python loader compiles programs to find it, once for a machine
    found = [
        ("48 linear layers and ReLUs, 8 x 64", _measure("mlp", *mlp())),
        ("GPT-2 small, 1 x 64 tokens", _measure("gpt2", *gpt2())),
    ]
    device = f"{torch.cuda.get_device_name()}, torch {torch.__version__}."
    text = page(
        "C++ on a GPU",
        "python -m tools.bench.bench_cpp_gpu --write",
        ("Prediction", PREDICTION),
        *((title, f"{device}\n\n{one}") for title, one in found),
    )
    publish("cpp_gpu", text, args)


if __name__ == "__main__":
    main()
