"""Measures the time from a model to its first result, against `torch.compile`, in one run.

Usage: `python -m tools.bench.bench_capture [--write] [NAME ...]`. Every measurement is a separate process
with empty caches (kernel caches, Inductor's caches), after torch and the model are loaded; sides alternate.
"capture" is `inductor_frontend.capture` alone. "first result" adds emission, compilation of the kernels and
one call, as `torch.compile` does before its first call returns. `--write` also writes
`docs/benchmarks/capture.md`.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Sequence
from functools import partial

from tools.bench.pages import command_line, page, publish, table
from tools.bench.processes import in_fresh_process
from tools.bench.timing import alternate

PREDICTION = """\
Written before the first measurement. Capture does all that Inductor does before it compiles kernels, plus export in
place of Dynamo, plus building, verifying and hashing the program: about 0.7 of `torch.compile`'s time to the first
result. To the first result we add one compiler run for all kernels where Inductor starts one for each, so the ratio
is at most 1.1, and below 1.0 where there are many kernels.

Written when an MLP's capture was at 0.91 and its first result at 1.11, GPT-2's at 0.72 and 0.93: of the 13 s, 8 to 10 were
torch's builds of libraries, which ask what vector instructions there are. Capture now asks in 1.3 s
(`inductor_frontend.devices.vector_isa`): captures 0.3 to 0.45 of `torch.compile`'s time, first results 0.5 to 0.6."""

NAMES = ("mlp", "gpt2", "minilm")
ROUNDS = 3


def _ours(name: str) -> dict[str, float]:
    import inductor_frontend
    import py_wrapper
    from tests.common.zoo import ZOO

    case = ZOO[name]()
    start = time.perf_counter()
    artifact = inductor_frontend.capture(case.model, case.args, case.kwargs)
    captured = time.perf_counter()
    py_wrapper.compile(artifact)(*case.args, **(case.kwargs or {}))
    return {"capture": captured - start, "first result": time.perf_counter() - start}


def _theirs(name: str) -> dict[str, float]:
    import torch

    from tests.common.zoo import ZOO

    case = ZOO[name]()
    start = time.perf_counter()
    with torch.no_grad():
        torch.compile(case.model)(*case.args, **(case.kwargs or {}))
    return {"first result": time.perf_counter() - start}


def _run(side: str, name: str) -> dict[str, float]:
    """Returns one measurement of a fresh process with empty caches."""
    with tempfile.TemporaryDirectory() as folder:
        return in_fresh_process(("-m", "tools.bench.bench_capture", f"--side={side}", name), folder)


def measure(name: str) -> list[tuple[str, str, str, str, str]]:
    """Rows of the table for one model."""
    found = alternate({side: partial(_run, side, name) for side in ("ours", "theirs")}, ROUNDS)
    want = statistics.median(times["first result"] for times in found["theirs"])
    rows = []
    for stage in ("capture", "first result"):
        got = statistics.median(times[stage] for times in found["ours"])
        rows.append((name, stage, f"{got:.2f}", f"{want:.2f}", f"{got / want:.2f}"))
    return rows


def main(argv: Sequence[str] | None = None) -> None:
    """Measures and prints; `--write` also writes the page."""
    parser = command_line(__doc__)
    parser.add_argument("--side", choices=("ours", "theirs"), help=argparse.SUPPRESS)
    parser.add_argument("names", nargs="*", default=list(NAMES))
    options = parser.parse_args(argv)
    if options.side:
        measured = (_ours if options.side == "ours" else _theirs)(options.names[0])
        print(json.dumps(measured))
        return
    rows = [row for name in options.names for row in measure(name)]
    outcome = table(("model", "until", "ours s", "torch.compile s", "ours / torch.compile"), rows)
    sections = (("Prediction", PREDICTION), ("Outcome", outcome))
    text = page("Time from model to result", "python -m tools.bench.bench_capture --write", *sections)
    publish("capture", text, options)


if __name__ == "__main__":
    main()
