"""Several runtimes in one process, which `together.cpp` compares with eager: two models of each."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence

from tools.bench.native.drivers import TOGETHER
from tools.bench.native.figures import is_right
from tools.bench.native.processes import Numbers, parse_answer
from tools.bench.native.sides import SIDES, Workshop

MODELS = ("mlp", "minilm")
THREADS, CALLS = 4, 100


def titles() -> tuple[str, ...]:
    """Sides that the program holds, ours first."""
    by_driver = {side.driver: title for title, side in SIDES.items()}
    return tuple(by_driver[driver] for driver in TOGETHER)


def run_together(
    workshop: Workshop, sides: Sequence[str], threads: int = THREADS, calls: int = CALLS
) -> list[Numbers]:
    """Opens both models of each side in one process, in this order; returns the answers in it.

    Raises RuntimeError if an export or the program fails.
    """
    prepared = [workshop.prepare(model, {title: SIDES[title] for title in sides}) for model in MODELS]
    for one in prepared:
        if one.missing:
            raise RuntimeError(f"a side has no export: {dict(one.missing)}")
    words = [str(workshop.together()), str(threads), str(calls)]
    for title in sides:
        for one in prepared:
            command = one.commands[title]
            words += [SIDES[title].driver, str(command.model), str(command.case)]
    variables = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(words, env=variables, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:] or f"it ended with {done.returncode}")
    return [parse_answer(line) for line in done.stdout.splitlines()]


def together_row(workshop: Workshop) -> tuple[str, str, str, str]:
    """A row of the table of `checks`."""
    found = run_together(workshop, titles())
    wrong = sum(not is_right(one["difference"], one["magnitude"]) for one in found)
    worst = max(one["difference"] / max(1.0, one["magnitude"]) for one in found)
    return (
        " and ".join(MODELS),
        "; ".join(titles()),
        f"one process, {THREADS} threads x {CALLS} calls of each",
        f"{wrong} of {len(found)} differ from eager, {worst:.1e} at most",
    )
