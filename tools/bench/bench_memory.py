"""Measures peaks and allocations of planned programs, against the bound, no plan, and Inductor, in one run.

Usage: `python -m tools.bench.bench_memory [--write] [NAME ...]`. Prints the tables; `--write` also writes
`docs/benchmarks/memory.md`, prediction first. Bytes are of one call on one thread, without constants. "planned"
is the program's computed peak, operators' results and temporaries included; "held" is the peak of torch's
allocator. Inductor's allocations are counted in its generated text. All sides compile the same graph, through
`torch.compile`.
"""

from __future__ import annotations

import dataclasses
import os
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any
from unittest.mock import patch

import torch
from torch._inductor import config as inductor_config
from torch._inductor.utils import run_and_get_code

import inductor_frontend
import py_wrapper
from tests.common.compare import peak_bytes
from tests.common.zoo import ZOO, Case
from tools.bench import memory_training, planned_calls
from tools.bench.large_models import LARGE
from tools.bench.memory_sides import Planned, allocations, allocations_in
from tools.bench.pages import command_line, page, publish, section_of, table
from wrapper_ir import ir
from wrapper_ir_passes import MEMORY_PASSES, run_pipeline
from wrapper_ir_passes.analysis.stats import program_stats
from wrapper_ir_tools.report import memory_report

PREDICTION = """\
Written before the first measurement. Storages of a program are few hundred, and most live for two or three ops, so that
placing the largest first reaches the bytes that are alive at once. One pool of everything would hold more than is needed where
results and operators' own outputs are large at another time; split at those times, held bytes stay within 1 % of the bound with
fewer allocations than Inductor, which reuses a buffer for another of exactly its size."""

OUTCOME = """\
As predicted, and better: each plan holds the bound. It allocates less often than Inductor's reuse everywhere. Inductor's pool planner
allocates two or three times, since all lies in one pool, and holds more for it.

The allocator holds what the plan says, operators' temporaries and results that nothing takes included: to the byte where torch decides,
and within 80 bytes of each LSTM. Without temporaries in the plan, `convnext` held 215,064 bytes. No model holds more than with
Inductor's reuse or its pool planner. Training steps hold the bound of each graph, and no more than Inductor's."""


CASES: dict[str, Callable[[], Case]] = {**ZOO, **LARGE}


@dataclasses.dataclass(frozen=True)
class Side:
    """Peak of the allocator of one side, and its allocations."""

    peak: int
    allocations: int


def _peaks(case: Case, call: Callable[..., object], allocations: int) -> Side:
    kwargs = dict(case.kwargs or {})
    run = partial(call, *case.args, **kwargs)
    return Side(peak_bytes(run), allocations)


def measure_ours(case: Case) -> tuple[Side, ir.Program, ir.Program]:
    """The measured peaks, and the program without and with a plan."""
    torch._dynamo.reset()
    emitter = Planned()
    # Any: torch's type has no emitters
    options: dict[str, Any] = {"emitter": emitter, "cache": False, "on_unsupported": "error"}
    call = torch.compile(case.model, backend="wrapper_ir", options=options)
    call(*case.args, **dict(case.kwargs or {}))
    (before,), (after,) = emitter.before, emitter.after
    return _peaks(case, call, allocations(after)), before, after


def measure_stock(case: Case, pools: bool) -> Side:
    """Inductor's reuse, or its pool planner."""
    torch._dynamo.reset()
    call = torch.compile(case.model)
    with inductor_config.patch(force_disable_caches=True, memory_planning=pools):
        _, codes = run_and_get_code(call, *case.args, **dict(case.kwargs or {}))
    return _peaks(case, call, allocations_in(codes))


@dataclasses.dataclass(frozen=True)
class _Measured:
    """All sides of one model, on the same graph of Dynamo's."""

    name: str
    before: ir.Program
    after: ir.Program
    ours: Side
    reuse: Side
    pools: Side

    def held(self) -> list[object]:
        """Returns the computed figures of the programs."""
        before, after = program_stats(self.before).memory, program_stats(self.after).memory
        return [
            self.name, f"{before.live:,}", f"{before.bound:,}", f"{after.bound:,}", f"{after.peak:,}",
            f"{after.peak / after.bound:.3f}", allocations(self.before), self.ours.allocations,
            self.reuse.allocations, self.pools.allocations,
        ]  # fmt: skip

    def peaks(self) -> list[object]:
        """Returns the measured figures."""
        use, ours = program_stats(self.after).memory, self.ours
        unknown = memory_report(self.after).unknown_temporaries
        return [
            self.name, f"{use.peak:,}", f"{use.bound:,}", f"{ours.peak:,}", f"{ours.peak / use.peak:.3f}",
            f"{self.reuse.peak:,}", f"{self.pools.peak:,}", f"{ours.peak / self.reuse.peak:.2f}",
            f"{ours.peak / self.pools.peak:.2f}", ", ".join(unknown) or "none",
        ]  # fmt: skip


def _measure(name: str) -> _Measured:
    case = CASES[name]()
    with (
        torch.no_grad(),
        torch._dynamo.config.patch(allow_rnn=True),
    ):  # else recurrent modules stay in eager mode
        ours, before, after = measure_ours(case)
        return _Measured(
            name, before, after, ours, measure_stock(case, pools=False), measure_stock(case, pools=True)
        )


HEADERS = (
    "model", "live bytes", "bound as captured", "bound as planned", "planned", "planned / bound",
    "allocations, no plan", "with a plan", "Inductor", "its pools",
)  # fmt: skip
PEAK_HEADERS = (
    "model", "planned", "bound", "held", "held / planned", "Inductor", "its pools", "of Inductor", "of its pools",
    "temporaries not known",
)  # fmt: skip
PEAK_TEXT = """"held" is the peak of torch's CPU allocator in one call, with all that operators allocate and give back inside; "planned" is
what the program says, operators' temporaries included. All sides compile the graph that Dynamo traced. "its pools" is
Inductor with `memory_planning=True`. The last column names operators whose temporaries count as 0."""


def _cpu() -> float:
    """Seconds of CPU of this process and of those that it has waited for, compilers among them."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def _cold(name: str) -> list[object]:
    """Measures the share of the passes in a compilation with an empty cache."""
    case = CASES[name]()
    kwargs = dict(case.kwargs or {})
    with (
        torch.no_grad(),
        tempfile.TemporaryDirectory() as folder,
        patch.dict(os.environ, WRAPPER_IR_CACHE_DIR=folder),
    ):
        begin = _cpu()
        artifact = inductor_frontend.capture(case.model, case.args, kwargs)
        captured = _cpu()
        run_pipeline(artifact.program, MEMORY_PASSES, verify=False)
        planned = _cpu()
        program = run_pipeline(artifact.program, MEMORY_PASSES)
        verified = _cpu()
        py_wrapper.compile(dataclasses.replace(artifact, program=program))(*case.args, **kwargs)
        rest = captured - begin + _cpu() - verified
    alone, checked = planned - captured, verified - planned
    shares = [f"{100 * part / (rest + part):.1f} %" for part in (alone, checked)]
    return [name, f"{rest:.1f}", f"{1000 * alone:.0f}", shares[0], f"{1000 * checked:.0f}", shares[1]]


COLD_HEADERS = (
    "model",
    "compilation without passes, s",
    "passes, ms",
    "share",
    "with verification, ms",
    "share, verified",
)
COLD_TEXT = """\
Seconds of CPU, C++ compilers among them: capture, the passes, Python and its kernels, with an empty cache. torch.compile verifies
the program before and after each pass, and compares what it does (the last two columns)."""


COLD_HEADING, CALLS_HEADING = "Planning in a cold compilation", "Calls"


def _times(names: Sequence[str]) -> list[tuple[str, str]]:
    """The sections with times."""
    mlp = CASES["mlp"]()
    inductor_frontend.capture(mlp.model, mlp.args)  # imports are not measured
    cold = table(COLD_HEADERS, map(_cold, names))
    calls = table(planned_calls.HEADERS, planned_calls.rows())
    return [
        (COLD_HEADING, f"{COLD_TEXT}\n\n{cold}"),
        (CALLS_HEADING, f"{planned_calls.PREDICTION}\n\n{calls}\n\n{planned_calls.OUTCOME}"),
    ]


def _kept_times() -> list[tuple[str, str]]:
    return [(heading, section_of("memory", heading)) for heading in (COLD_HEADING, CALLS_HEADING)]


def main(argv: Sequence[str] | None = None) -> None:
    """Measures and prints, or writes the page."""
    parser = command_line(__doc__)
    parser.add_argument(
        "--keep-times",
        action="store_true",
        help="take tables of times from the page as it is (the machine is busy)",
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(CASES)} (default: all)")
    args = parser.parse_args(argv)
    torch.set_num_threads(1)
    measured = [_measure(name) for name in args.names or CASES]
    models = table(HEADERS, [m.held() for m in measured])
    peaks = table(PEAK_HEADERS, [m.peaks() for m in measured])
    times = _kept_times() if args.keep_times else _times(args.names or list(ZOO))
    sections = (
        ("Prediction", PREDICTION),
        ("Models", models),
        ("Measured", f"{PEAK_TEXT}\n\n{peaks}"),
        ("Training", memory_training.text()),
        ("What the figures say", OUTCOME),
        *times,
    )
    publish("memory", page("Memory held", "python -m tools.bench.bench_memory --write", *sections), args)


if __name__ == "__main__":
    main()
