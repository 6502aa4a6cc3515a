"""Measures FX graphs: a call against the Python wrapper, conversion, and the growth of both with the ops.

Usage: `python -m tools.bench.bench_fx [--write] [--device cuda]`. On a CUDA device Inductor's converter
(`fx_wrapper=True`) runs beside ours in the same process: calls of its graphs, and its conversion time. On CPU
it refuses kernels, which are in C++, so there it runs a model without kernels. `--write` also writes
`docs/benchmarks/fx.md`, or `fx_cpu.md`, prediction first.
"""

from __future__ import annotations

import gc
import tempfile
import time
import unittest.mock as mock
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, get_args

import torch
from torch._inductor import config as inductor_config
from torch._inductor.codegen import wrapper_fxir
from torch.utils import _pytree as pytree

import fx_converter
import inductor_frontend
import py_wrapper
from fx_converter import FxOptions
from fx_converter.kernels import KernelCalls
from tests.common.zoo import Case, gpt2, mlp
from tools.bench.bench_ir_scale import synthetic
from tools.bench.pages import command_line, page, publish, table
from tools.bench.timing import compare, timed
from tools.bench.wrappers import Boxed, inductor_call
from wrapper_ir import ir
from wrapper_ir.artifact import Artifact, bare_artifact
from wrapper_ir.plugins.protocols import KernelRuntime, LoadedKernel

PREDICTION = """\
Written before the first measurement. The straight-line form of a graph with direct calls does what the Python wrapper
does, so a call is within 1.2 of it; with operators in place of launchers each kernel pays the dispatcher, a few
microseconds. Inductor's graph pays for a Triton launch through two Python layers for every kernel: ours is at most a
quarter of it. Converting makes a node and a fake value an op, about 40 us, and nothing looks back, so growth stays
below 1.2.

Written when a GPT's graph had been measured at 0.28 of Inductor's, of which allocations and views are a sixth: with persistent
buffers it is 0.24, and as long as the Python wrapper's call with persistent buffers.

Written when 100,000 ops with direct calls had taken 2.67 and 1.82 times as long an op as 10,000, with torch 2.11: graphs
there look for a free number from one up whenever a kernel's name comes again. With numbers of our own no stage grows by
more than 1.5, which leaves room for pages of memory that are touched for the first time.

Written when a graph module's own forward was torch's text, which took 1.40 and 1.25 of the Python wrapper's call on a GPU
and 2.6 on one CPU thread, and after a first look at the CPU's numbers: with a forward of our own, which takes all weights at
once, keeps windows of them and calls what the straight-line form calls, it stays below 1.1 on both. Arguments that an
operator takes by itself are no longer passed, which brings the straight-line form from 1.1 to 1.0 on the CPU, and on a GPU
from 1.05 to 1.02 and a GPT's graph from 0.26 to 0.25 of Inductor's.

Written when saving 100,000 ops took 1.5 to 1.6 times as long an op as 10,000: Python's collector walks the whole graph again
and again while its text is made. With the collector paused no stage grows by more than 1.2, and converting gets faster.

Written before Inductor's converter ran on a CPU, with a model of operators alone: both graphs make the same calls, ours with
checks, so a call takes at most 1.0 of Inductor's; converting is no slower."""
OUTCOME = """\
As predicted for what `compile` returns: 0.99 to 1.03 of the Python wrapper's call, 0.12 and 0.18 of Inductor's graph (0.09 and 0.13 with
persistent buffers), which is less than the 0.20 and 0.25 that were expected, since kernels of matmuls are launched without torch
([why](../adr/0017-library-kernels-launched-again.md)) on both of our sides. For that reason a graph module's own forward is 1.5 to 2.5 of the
Python wrapper, not 1.1: other compilers trace it, so that it calls torch's operators each time. Converting takes 0.11 and 0.02 of
Inductor's, and no stage grows by more than 1.3; that was expected to be 1.2."""
READING = """\
All with all run-time checks. Goals: at most 1.2 of the Python wrapper. `graph` is what `fx_converter.compile` returns; a graph
module's own forward is in addition a call of a `torch.nn.Module`, and looks in each call whether weights were replaced."""
INDUCTOR_NOTE = """\
Inductor's graph runs without checks, which its converter refuses. Goals: at most 0.25 of its calls, and conversion no slower
than its."""
NO_KERNELS_NOTE = """\
Inductor's converter refuses C++ kernels, so its graph runs for the model without activations alone, which has none, and
without checks. Goals: at most 1.0 of its calls, and conversion no slower than its."""
T = TypeVar("T")
SIZES = (1_000, 10_000, 100_000)
INDUCTOR_OPTIONS: dict[str, Any] = {
    "fx_wrapper": True,
    "size_asserts": False,
    "alignment_asserts": False,
    "scalar_asserts": False,
    "compile_threads": 1,
}
"""Options for Inductor's converter.

It refuses assertions that its wrapper writes as text; ours keeps them, in all rows. torch 2.11 loses the
Python function that its graph needs when other processes compile kernels.
"""
CASES: dict[str, Callable[[], Case]] = {
    "MLP, 48 x linear 64, batch 8": lambda: mlp(depth=49),
    "GPT-2, 12 blocks of width 32": lambda: gpt2(layers=12),
}
_WITHOUT_KERNELS = "48 x linear 64 without activations, batch 8"
# Any in this file: arguments of models


class _NoKernels:
    """Loads every kernel as a function that does nothing: converting launches none."""

    kind = "none"

    def load(self, kernel: ir.KernelDef, target: ir.Target) -> LoadedKernel:
        """See `KernelRuntime`."""
        return lambda *args: None

    def load_all(self, kernels: Sequence[ir.KernelDef], target: ir.Target) -> dict[str, LoadedKernel]:
        """See `KernelRuntime`."""
        return {kernel.name: self.load(kernel, target) for kernel in kernels}


def _runtime(kind: str) -> KernelRuntime:
    return _NoKernels()


def growth() -> str:
    """Seconds for everything that is done with programs of growing size, and microseconds for each op."""
    rows = []
    for dynamic in (False, True):
        measurements = [_stages(bare_artifact(synthetic(size, dynamic=dynamic))) for size in SIZES]
        for stage in measurements[0]:
            per_op = [1e6 * times[stage] / size for times, size in zip(measurements, SIZES, strict=True)]
            cells = [f"{times[stage]:.2f} ({us:.0f})" for times, us in zip(measurements, per_op, strict=True)]
            sizes = "symbolic" if dynamic else "fixed"
            rows.append([stage, sizes, *cells, f"{per_op[-1] / per_op[-2]:.2f}"])
    headers = ["stage", "sizes", *(f"{size:,} ops: s (us an op)" for size in SIZES), "growth"]
    return table(headers, rows)


def _stages(artifact: Artifact) -> dict[str, float]:
    """Seconds by stage: both forms, and the one of operators as straight-line Python, as a file, and back."""
    direct, hop = (
        FxOptions(kernel_calls=form, convention="flat", find_runtime=_runtime)
        for form in get_args(KernelCalls)
    )
    seconds = {"convert, direct calls": _seconds(partial(fx_converter.convert, artifact, direct))[0]}
    seconds["convert, operators"], module = _seconds(partial(fx_converter.convert, artifact, hop))
    seconds["straight-line Python"] = _seconds(partial(fx_converter.boxed_call, module))[0]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "graph.wir"
        seconds["save"] = _seconds(partial(fx_converter.save, module, path))[0]
        seconds["load"] = _seconds(partial(fx_converter.load, path, hop))[0]
    return seconds


def _seconds(run: Callable[[], T]) -> tuple[float, T]:
    gc.collect()
    return timed(run, time.process_time)


def _linears() -> Case:
    """Operators alone: a CPU's backend writes no kernel for them."""
    model = torch.nn.Sequential(*(torch.nn.Linear(64, 64) for _ in range(48)))
    return Case(name="linears", model=model, args=(torch.randn(8, 64),))


def calls(device: str) -> str:
    """Microseconds of a call, each side against the graph with direct calls."""
    rows: list[tuple[str, ...]] = []
    with_inductor = [*CASES] if device == "cuda" else [_WITHOUT_KERNELS]
    for name, make in {**CASES, _WITHOUT_KERNELS: _linears}.items():
        case, on_device = make(), _mover(device)
        target = "cuda:sm_{}{}".format(*torch.cuda.get_device_capability()) if device == "cuda" else None
        artifact = inductor_frontend.capture(case.model, case.args, case.kwargs, target=target)
        flat = list(pytree.tree_leaves(on_device((case.args, dict(case.kwargs or {})))))
        graphs = {
            "graph": fx_converter.compile(artifact).boxed,
            "graph with persistent buffers": fx_converter.compile(
                artifact, FxOptions(persistent_buffers=True)
            ).boxed,
        }
        parts = [partial(_beside, name, graphs, artifact, flat)]
        if name in with_inductor:
            parts.append(partial(_inductor, name, case, graphs, artifact, flat, on_device))
        for part in parts:
            rows += (part_rows := part())
            print(
                *(", ".join(row) for row in part_rows), sep="\n", flush=True
            )  # printed at once, in case the run is interrupted
    headers = ("model", "ours / theirs", "ours us", "theirs us", "ratio")
    return table(headers, rows)


def _mover(device: str) -> Callable[[Any], Any]:
    return lambda tree: pytree.tree_map(lambda x: x.to(device) if isinstance(x, torch.Tensor) else x, tree)


def _beside(
    name: str, graphs: Mapping[str, Boxed], artifact: Artifact, flat: list[Any]
) -> list[tuple[str, ...]]:
    """Graphs and the form `hop` against the Python wrapper."""
    python = py_wrapper.compile(artifact)
    persistent = py_wrapper.compile(artifact, py_wrapper.PyOptions(persistent_buffers=True))
    hop = fx_converter.compile(artifact, FxOptions(kernel_calls="hop"))
    module = fx_converter.convert(artifact, FxOptions(convention="flat"))
    sides = (
        ("graph / Python wrapper", graphs["graph"], python.boxed),
        ("both with persistent buffers", graphs["graph with persistent buffers"], persistent.boxed),
        ("graph module's forward / Python wrapper", lambda args: module(*args), python.boxed),
        ("graph of operators / Python wrapper", hop.boxed, python.boxed),
    )
    with torch.no_grad():
        return [
            (
                name,
                kind,
                *compare(
                    partial(_call, ours, flat), partial(_call, theirs, flat), settle=_wait(flat)
                ).cells(),
            )
            for kind, ours, theirs in sides
        ]


def _call(run: Callable[[list[Any]], object], flat: list[Any]) -> None:
    run(list(flat))


def _wait(flat: list[Any]) -> Callable[[], object] | None:
    """Waits until the device of the arguments has finished its work."""
    return torch.cuda.synchronize if any(x.is_cuda for x in flat if isinstance(x, torch.Tensor)) else None


def _inductor(
    name: str,
    case: Case,
    graphs: Mapping[str, Boxed],
    artifact: Artifact,
    flat: list[Any],
    on_device: Callable[[Any], Any],
) -> list[tuple[str, ...]]:
    """Graphs against Inductor's, and both conversions."""
    moved = Case(
        name=case.name,
        model=case.model.to(flat[0].device),
        args=on_device(case.args),
        kwargs=on_device(dict(case.kwargs or {})),
    )
    spent: list[float] = []
    generate = wrapper_fxir.FxConverter.generate

    def measured(self: Any) -> Any:
        seconds, result = timed(partial(generate, self))
        spent.append(seconds)
        return result

    with (
        torch.no_grad(),
        inductor_config.patch(**INDUCTOR_OPTIONS),
        mock.patch.object(wrapper_fxir.FxConverter, "generate", measured),
    ):
        theirs, theirs_flat = inductor_call(moved)
        ratios = {
            kind: compare(partial(_call, ours, flat), partial(_call, theirs, theirs_flat), settle=_wait(flat))
            for kind, ours in graphs.items()
        }
    seconds, _ = timed(partial(fx_converter.convert, artifact))
    conversion = (f"{1e6 * seconds:.0f}", f"{1e6 * spent[0]:.0f}", f"{seconds / spent[0]:.2f}")
    return [
        *((name, f"{kind} / Inductor's graph", *ratio.cells()) for kind, ratio in ratios.items()),
        (name, "converting / Inductor's converting", *conversion),
    ]


def main(argv: Sequence[str] | None = None) -> None:
    """Measures and prints; `--write` also writes the page."""
    parser = command_line(__doc__)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--only", choices=["calls", "growth"])
    options = parser.parse_args(argv)
    torch.set_num_threads(1)
    where = torch.cuda.get_device_name() if options.device == "cuda" else "one CPU thread"
    measured = []
    if options.only != "growth":
        note = INDUCTOR_NOTE if options.device == "cuda" else NO_KERNELS_NOTE
        measured.append(("Calls", "\n\n".join((READING, note, calls(options.device)))))
    if options.only != "calls":
        measured.append(("Converting", growth()))
    text = page(
        "FX graphs" if options.device == "cuda" else "FX graphs on a CPU",
        f"python -m tools.bench.bench_fx --write --device {options.device}",
        ("Prediction", PREDICTION),
        ("Measured on", f"{where}, torch {torch.__version__}"),
        *measured,
        *([("Outcome", OUTCOME)] if options.device == "cuda" else []),
    )
    publish("fx" if options.device == "cuda" else "fx_cpu", text, options)


if __name__ == "__main__":
    main()
