"""Measures torch.compile until the first result of a small GPT-2, ours against Inductor's, in one run.

Usage: `python -m tools.bench.bench_compile [--write] [--rounds N] [cold|warm ...]`. Every measurement is a
separate process, from the call of `torch.compile` to the first result, after torch and the model (see
`tools.bench.models`) are loaded; sides alternate. "cold": all caches are empty folders. "warm": an earlier
process with the same folders has compiled the same model, so both compilers find it in their caches.
"training" is forward and backward, "prediction" forward without gradients. Seconds of processor time include
child processes, so they do not depend on other load. `--write` also writes `docs/benchmarks/compile.md`.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import tempfile
import time
from collections.abc import Sequence
from functools import partial
from typing import Any

from tools.bench.pages import command_line, page, publish, table
from tools.bench.processes import in_fresh_process
from tools.bench.timing import alternate

PREDICTION = """\
Written before the first measurement. Cold, we do what Inductor does, and build, verify, emit and store a program
besides, but start one compiler run for all kernels of a graph where Inductor starts one each: at most 1.1. Warm, both
trace with Dynamo, which is nearly all of the time, and make a key; then Inductor unpickles and imports a module where we
read a program and emit it: at most 1.0.

Written when training was at 1.09 and prediction at 0.96 from cold caches: about 10 s of each side were builds of libraries
that ask what vector instructions there are, and ours are gone. So 0.85 and 0.55."""

BACKENDS = {"ours": "wrapper_ir", "theirs": "inductor"}
TASKS = ("training", "prediction")
ROUNDS = 3


def _processor_seconds() -> float:
    """Of this process and of its children that have ended."""
    uses = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(use.ru_utime + use.ru_stime for use in uses)


def _measure_here(side: str, task: str) -> dict[str, float]:
    """Returns one measurement of this process."""
    # Imported here: only the measured processes need them.
    import torch

    from tools.bench.models import small_gpt2, tokens

    model, ids = small_gpt2(), tokens()
    model.train(task == "training")
    wall, processor = time.perf_counter(), _processor_seconds()
    compiled: Any = torch.compile(model, backend=BACKENDS[side])  # a module, to its users
    if task == "training":
        torch.autograd.backward(compiled(input_ids=ids, labels=ids, use_cache=False).loss)
    else:
        with torch.no_grad():
            compiled(input_ids=ids, use_cache=False)
    return {"wall": time.perf_counter() - wall, "processor": _processor_seconds() - processor}


def _run(side: str, task: str, kept: str | None) -> dict[str, float]:
    """Returns one measurement of a fresh process, with the side's caches in `kept`, or with empty ones."""
    with tempfile.TemporaryDirectory() as fresh:
        caches = fresh if kept is None else f"{kept}/{side}"
        return in_fresh_process(("-m", "tools.bench.bench_compile", f"--side={side}", task), caches)


def measure(state: str, task: str, rounds: int) -> tuple[str, ...]:
    """A row of the table: medians over rounds, and the ratios of these."""
    with tempfile.TemporaryDirectory() as folder:
        sides = {side: partial(_run, side, task, folder if state == "warm" else None) for side in BACKENDS}
        if state == "warm":
            alternate(sides, 1)  # fills the caches
        times = alternate(sides, rounds)
    cells: list[str] = []
    for clock in ("wall", "processor"):
        ours, theirs = (statistics.median(t[clock] for t in times[side]) for side in BACKENDS)
        cells += [f"{ours:.2f}", f"{theirs:.2f}", f"{ours / theirs:.2f}"]
    return (task, state, *cells)


def main(argv: Sequence[str] | None = None) -> None:
    """Measures and prints; `--write` also writes the page."""
    parser = command_line(__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--side", choices=tuple(BACKENDS), help=argparse.SUPPRESS)
    parser.add_argument("what", nargs="*", default=["cold", "warm"], help="cold, warm, training, prediction")
    options = parser.parse_args(argv)
    if options.side:
        print(json.dumps(_measure_here(options.side, options.what[0])))
        return
    states = [s for s in ("cold", "warm") if s in options.what] or ["cold", "warm"]
    tasks = [t for t in TASKS if t in options.what] or list(TASKS)
    rows = [measure(state, task, options.rounds) for state in states for task in tasks]
    headers = ("call", "caches", "ours s", "Inductor s", "ratio", "ours cpu s", "Inductor cpu s", "cpu ratio")
    sections = (("Prediction", PREDICTION), ("Outcome", table(headers, rows)))
    text = page("Time until compiled", "python -m tools.bench.bench_compile --write", *sections)
    publish("compile", text, options)


if __name__ == "__main__":
    main()
