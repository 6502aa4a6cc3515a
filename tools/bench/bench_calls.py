"""Measures a call of the emitted Python against Inductor's Python wrapper, in one run.

Usage: `python -m tools.bench.bench_calls [--write] [NAME ...]`. Prints a table of ratios; `--write` also
writes `docs/benchmarks/calls.md`, prediction first.

Five comparisons for each model. A captured artifact (weights are its constants) against Inductor's wrapper
(weights are arguments), both on flat arguments, and the same with `PyOptions(persistent_buffers=True)`; the
artifact called with the model's own signature against `torch.compile`'s callable; both compilers under
`torch.compile`, with the same guards around; and the two wrappers on identical flat arguments, including
weights. All run the same kernels from the same graph.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

import inductor_frontend
import py_wrapper
from inductor_frontend.backend import function as backend
from tests.common.zoo import ZOO, Case, gpt2
from tools.bench.pages import command_line, page, publish, table
from tools.bench.timing import Ratio, compare
from tools.bench.wrappers import Boxed, inductor_call, last_call

PREDICTION = """\
Written before the first measurement. On the small MLP the wrapper is nearly all of the time: straight-line code that
allocates with the guard-level C function, calls operators as built-in functions and launches kernels through our own
binding costs at most 0.8 of Inductor's wrapper, which does the same work plus assertions. On the GPT stack and
MiniLM the kernels and matmuls dominate, so the ratio is between 0.95 and 1.0."""

CASES: dict[str, Callable[[], Case]] = {
    "MLP 4 x linear 64, batch 8": ZOO["mlp"],
    "GPT-2, 4 blocks of width 32": lambda: gpt2(layers=4),
    "MiniLM, batch 3, 8 tokens": ZOO["minilm"],
}


def _boxed_calls(case: Case) -> tuple[Boxed, Boxed, list[Any]]:
    """(ours, Inductor's, flat arguments): both compiled callables as `torch.compile` calls them."""
    args, kwargs = case.args, dict(case.kwargs or {})
    torch._dynamo.reset()
    ours, flat = last_call(
        lambda: torch.compile(case.model, backend="wrapper_ir", options={"cache": False})(*args, **kwargs),
        backend,
        "boxed",
    )
    theirs, _ = inductor_call(case)
    return ours, theirs, flat


def measure(case: Case) -> dict[str, Ratio]:
    """The comparisons of one model."""
    kwargs = dict(case.kwargs or {})
    with torch.no_grad():
        ours, theirs, flat = _boxed_calls(case)
        bare = compare(lambda: ours(list(flat)), lambda: theirs(list(flat)))
        torch._dynamo.reset()
        stock = torch.compile(case.model)
        through = torch.compile(case.model, backend="wrapper_ir")
        compiled = compare(lambda: through(*case.args, **kwargs), lambda: stock(*case.args, **kwargs))
        artifact = inductor_frontend.capture(case.model, case.args, kwargs)
        ahead = py_wrapper.compile(artifact)
        leaves = [*case.args, *kwargs.values()]
        persistent = py_wrapper.compile(artifact, py_wrapper.PyOptions(persistent_buffers=True))
        flat_call = compare(lambda: ahead.boxed(list(leaves)), lambda: theirs(list(flat)))
        persistent_call = compare(lambda: persistent.boxed(list(leaves)), lambda: theirs(list(flat)))
        whole = compare(lambda: ahead(*case.args, **kwargs), lambda: stock(*case.args, **kwargs))
    return {
        "captured artifact / Inductor's wrapper": flat_call,
        "the same with persistent buffers": persistent_call,
        "captured artifact / torch.compile": whole,
        "both under torch.compile": compiled,
        "both wrappers on the same arguments": bare,
    }


def main(argv: Sequence[str] | None = None) -> None:
    """Measures and prints; `--write` also writes the page."""
    parser = command_line(__doc__)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("names", nargs="*", help="parts of the models' names")
    options = parser.parse_args(argv)
    torch.set_num_threads(options.threads)
    rows = []
    for name, make in CASES.items():
        if options.names and not any(part.lower() in name.lower() for part in options.names):
            continue
        for kind, ratio in measure(make()).items():
            rows.append((name, kind, *ratio.cells()))
    outcome = table(("model", "call", "ours us", "Inductor us", "ratio"), rows)
    where = f"{options.threads} thread, torch {torch.__version__}."
    sections = (("Prediction", PREDICTION), ("Outcome", f"{where}\n\n{outcome}"))
    text = page("Cost of a call", "python -m tools.bench.bench_calls --write", *sections)
    publish("calls", text, options)


if __name__ == "__main__":
    main()
