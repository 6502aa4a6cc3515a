"""Measures a training step and a prediction of a small GPT-2 under `torch.compile`, ours against Inductor's.

Usage: `python -m tools.bench.bench_training [--write] [--threads N]`. Both compile the same transformers
GPT-2 (4 blocks of width 256, 8 heads, 4 sequences of 64 tokens) from the same weights, in one process; rounds
alternate (`tools.bench.timing`). A step is forward, backward and eager SGD, as a user runs it, with guards
and autograd around the compiled graphs; forward and backward alone exclude the optimizer. The C library keeps
freed memory (`tools.bench.timing.keep_memory`). `--write` also writes `docs/benchmarks/training.md`.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from tools.bench.models import small_gpt2, tokens
from tools.bench.pages import command_line, page, publish, table
from tools.bench.timing import Ratio, compare, keep_memory

PREDICTION = """\
Written before the first measurement. Both run the same kernels and matmuls on the same memory, which is nearly
all of a step of this size; our wrapper saves some tens of microseconds of several milliseconds in each graph. All ratios
lie between 0.95 and 1.0, the prediction's a little lower than the steps'."""

ROUNDS, SECONDS = 41, 0.4
"""Rounds, and the length of one on one side: several calls of tens of milliseconds."""

OUTCOME = """\
Parity, a little above the prediction: five runs gave 0.99 to 1.02 for each row, and Inductor against itself 1.00. Matrix
matmuls and attention are nine tenths of a step, equal on both sides to 1 %; fused kernels take equally long. The
overhead that our wrapper saves shows in small models (`tools.bench.bench_calls`), not here."""

BACKENDS = ("wrapper_ir", "inductor")


def _training(model: nn.Module, backend: str, ids: Tensor, *, optimize: bool) -> Callable[[], object]:
    """Runs one training step of a compiled copy of the model."""
    own = copy.deepcopy(model).train()
    compiled: Any = torch.compile(own, backend=backend)  # a module, to its users
    optimizer = torch.optim.SGD(own.parameters(), lr=1e-3)

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        torch.autograd.backward(compiled(input_ids=ids, labels=ids, use_cache=False).loss)
        if optimize:
            optimizer.step()

    return step


def _prediction(model: nn.Module, backend: str, ids: Tensor) -> Callable[[], object]:
    own = copy.deepcopy(model).eval()
    compiled: Any = torch.compile(own, backend=backend)  # a module, to its users

    def predict() -> None:
        with torch.no_grad():
            compiled(input_ids=ids, use_cache=False)

    return predict


def measure() -> dict[str, Ratio]:
    """Returns the comparisons, by measured quantity."""
    model, ids = small_gpt2(), tokens()
    times = {}
    for name, optimize in (("forward, backward and SGD", True), ("forward and backward", False)):
        torch._dynamo.reset()
        ours, theirs = (_training(model, backend, ids, optimize=optimize) for backend in BACKENDS)
        times[name] = compare(ours, theirs, rounds=ROUNDS, seconds=SECONDS)
    torch._dynamo.reset()
    ours, theirs = (_prediction(model, backend, ids) for backend in BACKENDS)
    times["prediction"] = compare(ours, theirs, rounds=ROUNDS, seconds=SECONDS)
    return times


def main(argv: Sequence[str] | None = None) -> None:
    """Measures and prints; `--write` also writes the page."""
    parser = command_line(__doc__)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args(argv)
    torch.set_num_threads(options.threads)
    keep_memory()
    rows = [(name, *ratio.cells(1e-3)) for name, ratio in measure().items()]
    where = (
        f"{options.threads} thread; GPT-2 of 4 blocks, width 256, 4 x 64 tokens; torch {torch.__version__}."
    )
    outcome = table(("call", "ours ms", "Inductor ms", "ratio"), rows)
    text = page(
        "A training step",
        "python -m tools.bench.bench_training --write",
        ("Prediction", PREDICTION),
        ("Outcome", f"{where}\n\n{outcome}\n\n{OUTCOME}"),
    )
    publish("training", text, options)


if __name__ == "__main__":
    main()
