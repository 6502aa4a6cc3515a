"""Calls of C++ libraries on a GPU, against AOTInductor, Inductor's wrappers and graph replay, in one run.

Usage: `python -m tools.bench.bench_cpp_gpu [--write] [--limit SECONDS] [--packages FOLDER]`. Prints a table
per model; `--write` also writes `docs/benchmarks/cpp_gpu.md`, prediction first. Packages are built by
separate processes, at the same time. Then each side is timed until a call has finished, in alternating
rounds. Sides that fail, return other results than eager mode, or exceed the limit are named and skipped.
Packages that exist in `--packages` are not built. AOTInductor's libraries may need the system's libstdc++
(`LD_PRELOAD`).
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch._inductor.cpu_vec_isa import pick_vec_isa
from torch.utils import _pytree as pytree

import cpp_wrapper
import inductor_frontend
from cpp_wrapper import CppOptions
from cpp_wrapper.emitter import CppEmitter
from tests.common.zoo import Case
from tools.bench.bench_memory_gpu import gpt2_small
from tools.bench.bench_wrapper import one_instance
from tools.bench.gpu_calls import Model, call_seconds, recorded
from tools.bench.pages import command_line, page, publish, table
from tools.bench.timing import alternate
from tools.bench.wrappers import inductor_call
from wrapper_ir_passes.pipeline import run_on_artifact

PREDICTION = """\
Written before this table, and after one of the first model alone, in which a planned program of ours took 0.88 of AOTInductor's call
and 0.28 where the caller records it in a graph. Both models are bound by the host, and its work is torch's matmuls (some 11 us
each inside cuBLAS), launches (some 3 us) and, without persistent buffers, allocations and views.

With persistent buffers a call of the 48 layers is matmuls and launches alone: 0.62 of AOTInductor's. With matmuls as Triton
templates these are launches, too: 0.35. A call of GPT-2 small comes near what the GPU needs for it, so that it takes 0.72 with
persistent buffers, and not less than the replay of a graph, which is 0.65.

Written later, before the rows of what the library records itself: a call copies its input, launches one graph and copies its
result, some 10 us of the host. The 48 layers are one graph, whose matmuls are those of cuBLAS with the bias added in the same kernel:
0.25 of AOTInductor, and 0.12 with Triton matmuls. In GPT-2 small attention allocates, so that it stands between 13 graphs: 0.75.

Written later, before the rows of split matmuls: three matmuls of a layer of GPT-2 small are sums of parts, which the kernels that
follow add up, where cuBLAS has a kernel for that. Its graph takes 0.89 of the graph of cuBLAS's matmuls, and 0.68 of AOTInductor's
call. The 48 layers do not change: a matmul that sums up 64 elements is not split."""

OUTCOME = """\
Not as predicted: persistent buffers alone bring the 48 layers to 0.85 of AOTInductor's call and GPT-2 small to 0.91, since a matmul
of cuBLAS costs the host more than was thought. Better than predicted: with matmuls as Triton templates the 48 layers take 0.21, less
than the replay of a graph of cuBLAS's matmuls, since their kernels are shorter, too; as a graph 0.15. What the library records itself
costs the host 12 us a call: 0.35 and 0.16, so that a bare replay is not faster with Triton matmuls.

Split matmuls are as predicted: their graph of GPT-2 small takes 673 us on the device in place of 763, which is 0.68 of AOTInductor's
call; without a graph 0.78 in place of 0.91, since a part of a matmul is one kernel for the host, too, where cuBLAS launches two. With
whole matmuls the graph takes 0.77 here and took 0.67 in a run on another machine of the kind: how far below AOTInductor's call it
is depends on that call's host. Recorded by the library it takes 0.83 and 0.91, since attention allocates and stands between 13 graphs.
Worse than predicted: with Triton matmuls that model leaves the host after 0.41 of AOTInductor's time, but they are slower on the GPU than
cuBLAS's, so that the call takes 1.12; split matmuls in a graph are the choice."""

_ROUNDS, _CALLS = 15, 20
_TOLERANCE = 2e-2
"""Matmuls use TensorFloat-32."""
_PERSISTENT = CppOptions(persistent_buffers=True)
_MATMULS: Mapping[str, Literal["extern", "templates", "split"]] = {
    "ours": "extern",
    "matmuls": "templates",
    "split": "split",
}
"""Method of matmuls by kind of package."""


def mlp() -> tuple[nn.Module, tuple[Any, ...]]:
    """48 layers of width 64, on 8 rows."""
    torch.manual_seed(0)
    layers = [part for _ in range(48) for part in (nn.Linear(64, 64), nn.ReLU())]
    return nn.Sequential(*layers).cuda().eval(), (torch.randn(8, 64, device="cuda"),)


def gpt2() -> tuple[nn.Module, tuple[Any, ...]]:
    """GPT-2 small on 64 tokens."""
    ids = torch.randint(0, 50257, (1, 64), generator=torch.Generator().manual_seed(0))
    return gpt2_small().eval(), (ids.cuda(),)


MODELS: Mapping[str, Callable[[], tuple[nn.Module, tuple[Any, ...]]]] = {"mlp": mlp, "gpt2": gpt2}
TITLES = {"mlp": "48 linear layers and ReLUs, 8 x 64", "gpt2": "GPT-2 small, 1 x 64 tokens"}

# --- packages, each built by a separate process


def _build(kind: str, model: nn.Module, args: tuple[Any, ...], folder: Path) -> None:
    """Builds packages: `ours` writes three, `ours.pt2` last, `matmuls` and `split` two, the one of their
    name last, `aoti` one.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if kind == "aoti":
        exported = torch.export.export(model, args)
        torch._inductor.aoti_compile_and_package(exported, package_path=str(folder / "aoti.pt2"))
        return
    options = inductor_frontend.CaptureOptions(matmuls=_MATMULS[kind])
    artifact = inductor_frontend.capture(model, args, options=options)
    if kind == "matmuls":
        artifact = one_instance(artifact)
    recorded = run_on_artifact(artifact, CppEmitter().cuda_graph_passes)
    cpp_wrapper.build(recorded, folder / f"{kind}_recorded.pt2")
    if kind != "ours":
        cpp_wrapper.build(artifact, folder / f"{kind}.pt2", _PERSISTENT)
        return
    cpp_wrapper.build(artifact, folder / "persistent.pt2", _PERSISTENT)
    cpp_wrapper.build(artifact, folder / "ours.pt2")


def _elsewhere(name: str, kind: str, folder: Path, limit: float) -> None:
    """Builds in a separate process. Raises RuntimeError with the last line of its output."""
    if (folder / f"{kind}.pt2").exists():
        return
    command = (sys.executable, "-W", "ignore", "-m", __spec__.name, "--make", kind, name, str(folder))
    begin = time.perf_counter()
    process = subprocess.run(command, capture_output=True, text=True, check=False, timeout=limit)
    print(f"{name} {kind}: built in {time.perf_counter() - begin:.1f} s", flush=True)
    if process.returncode:
        raise RuntimeError((process.stderr.strip().splitlines() or ["no message"])[-1])


# --- sides


@dataclass
class _Sides:
    """Callables of a model, and the reasons for missing ones."""

    name: str
    model: nn.Module
    args: tuple[Any, ...]
    deadline: float
    made: dict[str, Model] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)

    def add(self, side: str, make: Callable[[], Model], *, is_plain: bool = True) -> None:
        """Adds a side. `is_plain`: its results have the model's own structure."""
        begin = time.perf_counter()
        try:
            if begin > self.deadline:
                raise TimeoutError("no time was left")
            run = make()
            for _ in range(5):
                result = run(*self.args)
            torch.cuda.synchronize()
            if is_plain:
                self._compare(result)
            self.made[side] = run
            print(f"{self.name} {side}: made in {time.perf_counter() - begin:.1f} s", flush=True)
        except Exception as error:  # a side that fails must not end the run
            self.failed[side] = f"{type(error).__name__}: {(str(error).splitlines() or [''])[0][:200]}"
            print(f"{self.name} {side}: {self.failed[side]}", flush=True)

    def _compare(self, result: object) -> None:
        want = self.model(*self.args)
        mine, theirs = (
            [x for x in pytree.tree_leaves(tree) if isinstance(x, Tensor)] for tree in (result, want)
        )
        torch.testing.assert_close(mine, theirs, rtol=_TOLERANCE, atol=_TOLERANCE)


def _wrapper(sides: _Sides) -> None:
    """Eager mode, and Inductor's wrapper, which comes before torch.compile: it resets Dynamo."""
    model = sides.model
    sides.add("eager", lambda: model)
    case = Case(name=sides.name, model=model, args=sides.args)

    def wrapper() -> Model:
        boxed, flat = inductor_call(case)
        return lambda *_: boxed(list(flat))

    sides.add("Inductor's wrapper", wrapper, is_plain=False)


def _compiled(sides: _Sides) -> None:
    model = sides.model
    sides.add("torch.compile, reduce-overhead", lambda: torch.compile(model, mode="reduce-overhead"))
    sides.add("torch.compile", lambda: torch.compile(model))
    sides.add(
        "torch.compile, Inductor's C++ wrapper", lambda: torch.compile(model, options={"cpp_wrapper": True})
    )
    sides.add(
        "torch.compile, ours in C++, recorded",
        lambda: torch.compile(model, backend="wrapper_ir", options={"emitter": "cpp", "cuda_graphs": 16}),
    )


def _packages(sides: _Sides, builds: Mapping[str, Future[None]], folder: Path) -> None:
    def ours(name: str, kind: str) -> Model:
        builds[kind].result()
        program: Model = cpp_wrapper.load(folder / f"{name}.pt2")
        return program

    def stock(name: str, kind: str) -> Model:
        builds[kind].result()
        program: Model = torch._inductor.aoti_load_package(str(folder / f"{name}.pt2"))
        return program

    sides.add("ours", partial(ours, "ours", "ours"))
    sides.add("ours, persistent buffers", partial(ours, "persistent", "ours"))
    sides.add("ours, persistent buffers, torch's loader", partial(stock, "persistent", "ours"))
    sides.add("ours, persistent buffers, split matmuls", partial(ours, "split", "split"))
    sides.add("ours, persistent buffers, Triton matmuls", partial(ours, "matmuls", "matmuls"))
    sides.add("ours, recorded", partial(ours, "ours_recorded", "ours"))
    sides.add("ours, recorded, split matmuls", partial(ours, "split_recorded", "split"))
    sides.add("ours, recorded, Triton matmuls", partial(ours, "matmuls_recorded", "matmuls"))
    for matmuls in ("", ", split matmuls", ", Triton matmuls"):
        side = f"ours, persistent buffers{matmuls}"
        if (program := sides.made.get(side)) is not None:
            sides.add(f"graph of {side}", partial(recorded, program, sides.args), is_plain=False)
    sides.add("AOTInductor", partial(stock, "aoti", "aoti"))


# --- times


def _measured(sides: _Sides) -> str:
    times = alternate(
        {side: partial(call_seconds, run, sides.args, _CALLS) for side, run in sides.made.items()}, _ROUNDS
    )
    peer = times.get("AOTInductor")
    rows: list[list[object]] = []
    for side, values in times.items():
        ratio = "" if peer is None else f"{statistics.median(a[0] / b[0] for a, b in zip(values, peer)):.2f}"
        best = [min(column) * 1e6 for column in zip(*values)]
        rows.append([side, f"{best[0]:.1f}", f"{best[1]:.1f}", ratio])
    text = table(("side", "until finished, us", "until returned, us", "of AOTInductor"), rows)
    late = [side for side, why in sides.failed.items() if why.startswith("Timeout")]
    text += f"\n\nNot made within the time limit: {'; '.join(late)}." if late else ""
    text += "".join(f"\n\n{side}: {why}" for side, why in sides.failed.items() if side not in late)
    print(f"{sides.name}\n{text}", flush=True)
    return text


def _run(limit: float, packages: str | None) -> list[tuple[str, str]]:
    """The tables, by title."""
    deadline = time.perf_counter() + limit
    with tempfile.TemporaryDirectory() as root, ThreadPoolExecutor(8) as pool, torch.no_grad():
        folders = {name: Path(packages or root, name) for name in MODELS}
        builds: dict[str, dict[str, Future[None]]] = {name: {} for name in MODELS}
        for name in reversed(list(MODELS)):  # the larger one first
            folders[name].mkdir(parents=True, exist_ok=True)
            for kind in ("aoti", *_MATMULS):
                builds[name][kind] = pool.submit(_elsewhere, name, kind, folders[name], limit)
        every = [_Sides(name, *make(), deadline) for name, make in MODELS.items()]
        pick_vec_isa()  # torch's Python loader compiles programs to find it, once for a machine
        for sides in every:
            _packages(sides, builds[sides.name], folders[sides.name])
        for prepare in (_wrapper, _compiled):
            for sides in every:
                prepare(sides)
        return [(TITLES[sides.name], _measured(sides)) for sides in every]


def main(argv: Sequence[str] | None = None) -> None:
    """Measures and prints, or writes the page."""
    parser = command_line(__doc__)
    parser.add_argument("--packages", metavar="FOLDER", help="where packages go, and stay")
    parser.add_argument("--limit", type=float, default=1200.0, metavar="SECONDS")
    parser.add_argument(
        "--make", nargs=3, metavar=("KIND", "MODEL", "FOLDER"), help="build packages, and end"
    )
    args = parser.parse_args(argv)
    torch.set_float32_matmul_precision("high")
    if args.make:
        kind, name, folder = args.make
        with torch.no_grad():
            _build(kind, *MODELS[name](), Path(folder))
        return
    results = _run(args.limit, args.packages)
    device = f"{torch.cuda.get_device_name()}, torch {torch.__version__}."
    text = page(
        "C++ on a GPU",
        "python -m tools.bench.bench_cpp_gpu --write",
        ("Prediction", PREDICTION),
        *((title, f"{device}\n\n{one}") for title, one in results),
        ("Outcome", OUTCOME),
    )
    publish("cpp_gpu", text, args)


if __name__ == "__main__":
    main()
