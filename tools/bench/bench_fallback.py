"""Measures the copies for the fallback to Inductor, relative to the compilation that they precede.

Usage: `python -m tools.bench.bench_fallback [--write] [--rounds N]`. Compiles a training step of a small
GPT-2 (see `tools.bench.models`) with `on_unsupported="inductor"`, with fixed and with symbolic sizes, each in
a separate process with empty caches, and times each copy. `--write` also writes
`docs/benchmarks/fallback.md`.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Sequence
from typing import Any

from tools.bench.pages import command_line, page, publish, table
from tools.bench.processes import in_fresh_process

PREDICTION = """\
Written before the first measurement. A copy takes a node of a graph 10 us, and a table of symbols less than 1 ms: below 1 %
of a compilation."""

ROUNDS = 3
SIZES = ("fixed", "symbolic")


def _measure_here(sizes: str) -> dict[str, float]:
    """Returns one measurement of this process: seconds of compilation and of copies, and the number of copied
    nodes.
    """
    # Imported here: only the measured processes need them.
    import torch

    from inductor_frontend.backend import fallback
    from tools.bench.models import small_gpt2, tokens

    totals = {"copies": 0.0, "nodes": 0.0}

    class Timed(fallback.Pristine):
        def __init__(self, request: Any) -> None:  # Any: the backend's request
            start = time.perf_counter()
            super().__init__(request)
            totals["copies"] += time.perf_counter() - start
            totals["nodes"] += len(request.gm.graph.nodes)

    fallback.Pristine = Timed  # type: ignore[misc]  # in this process, which ends with the measurement
    model, ids = small_gpt2(), tokens()
    model.train()
    compiled: Any = torch.compile(  # a module, to its users
        model, backend="wrapper_ir", dynamic=sizes == "symbolic", options={"on_unsupported": "inductor"}
    )
    start = time.perf_counter()
    torch.autograd.backward(compiled(input_ids=ids, labels=ids, use_cache=False).loss)
    return {"whole": time.perf_counter() - start, **totals}


def measure(sizes: str, rounds: int) -> tuple[str, ...]:
    """A row of the table: medians over rounds."""
    measurements = []
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as caches:
            measurements.append(
                in_fresh_process(("-m", "tools.bench.bench_fallback", f"--sizes={sizes}"), caches)
            )
    nodes, copies, whole = (
        statistics.median(f[name] for f in measurements) for name in ("nodes", "copies", "whole")
    )
    return (sizes, f"{nodes:.0f}", f"{copies * 1e3:.1f}", f"{whole:.2f}", f"{copies / whole:.2%}")


def main(argv: Sequence[str] | None = None) -> None:
    """Measures and prints; `--write` also writes the page."""
    parser = command_line(__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--sizes", choices=SIZES, help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.sizes:
        print(json.dumps(_measure_here(options.sizes)))
        return
    headers = ("sizes", "nodes copied", "copies ms", "compilation s", "share")
    outcome = table(headers, [measure(sizes, options.rounds) for sizes in SIZES])
    sections = (("Prediction", PREDICTION), ("Outcome", outcome))
    text = page("Copies before a capture", "python -m tools.bench.bench_fallback --write", *sections)
    publish("fallback", text, options)


if __name__ == "__main__":
    main()
