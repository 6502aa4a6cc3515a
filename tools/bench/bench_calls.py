"""What a call of the emitted Python costs, against Inductor's Python wrapper, in one run.

Usage: `python -m tools.bench.bench_calls [--write] [NAME ...]`. Prints a table of ratios; `--write` also writes
`docs/benchmarks/calls.md`, prediction first.

Three comparisons for each model: the bare wrappers (flat arguments in a list, as `torch.compile` calls them), whole
calls under `torch.compile` (the same guards on both sides), and our captured artifact called with the model's own
signature against `torch.compile`'s. Both sides run the same kernels from the same graph.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import Any

import torch
from tabulate import tabulate
from torch._inductor import compile_fx

import inductor_frontend
import py_wrapper
from tests.zoo import ZOO, Case, gpt2
from tools.bench.timing import Ratio, compare, write_report

PREDICTION = """\
Written before the first measurement. On the small MLP the wrapper is nearly all of the time: straight-line code that
allocates with the guard-level C function, calls operators as built-in functions and launches kernels through our own
binding costs at most 0.8 of Inductor's wrapper, which does the same work plus assertions. On the GPT stack and
MiniLM the kernels and matrix products dominate, so the ratio is between 0.95 and 1.0."""

CASES: dict[str, Callable[[], Case]] = {
    "MLP 4 x linear 64, batch 8": ZOO["mlp"],
    "GPT-2, 4 blocks of width 32": lambda: gpt2(layers=4),
    "MiniLM, batch 3, 8 tokens": ZOO["minilm"],
}
Boxed = Callable[[list[Any]], Any]


def _boxed_calls(case: Case) -> tuple[Boxed, Boxed, list[Any]]:
    """(ours, Inductor's, flat arguments): both compiled callables as `torch.compile` calls them."""
    calls: dict[str, tuple[Boxed, list[Any]]] = {}

    def spy(name: str, compiler: Callable[..., Any]) -> Callable[..., Any]:
        def compile(graph: Any, inputs: Any, **kwargs: Any) -> Any:
            compiled = compiler(graph, inputs, **kwargs)

            def run(args: list[Any]) -> Any:
                calls[name] = (compiled, list(args))
                return compiled(args)

            run._boxed_call = True  # type: ignore[attr-defined]  # how torch marks a boxed callable
            return run

        return compile

    for name, inner in (("theirs", compile_fx.compile_fx_inner), ("ours", inductor_frontend.inner_compile)):
        torch._dynamo.reset()
        run = torch.compile(
            case.model,
            backend=lambda g, i, f=inner, n=name: compile_fx.compile_fx(g, i, inner_compile=spy(n, f)),
        )
        with torch.no_grad():
            run(*case.args, **(case.kwargs or {}))
    return calls["ours"][0], calls["theirs"][0], calls["ours"][1]


def measure(case: Case) -> dict[str, Ratio]:
    """The three comparisons of one model."""
    kwargs = dict(case.kwargs or {})
    ours, theirs, flat = _boxed_calls(case)
    with torch.no_grad():
        bare = compare(lambda: ours(list(flat)), lambda: theirs(list(flat)))
        torch._dynamo.reset()
        stock = torch.compile(case.model)
        backend = torch.compile(case.model, backend="wrapper_ir")
        compiled = compare(lambda: backend(*case.args, **kwargs), lambda: stock(*case.args, **kwargs))
        ahead = py_wrapper.compile(inductor_frontend.capture(case.model, case.args, kwargs))
        artifact = compare(lambda: ahead(*case.args, **kwargs), lambda: stock(*case.args, **kwargs))
    return {"bare wrapper": bare, "under torch.compile": compiled, "artifact, own signature": artifact}


def main(argv: Sequence[str] | None = None) -> None:
    """Measures, prints, and with --write records."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--write", action="store_true")
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
    headers = ("model", "call", "ours us", "Inductor us", "ours / Inductor")
    print(tabulate(rows, headers))
    if options.write:
        table = tabulate(rows, headers, tablefmt="github")
        text = f"# Cost of a call\n\n`python -m tools.bench.bench_calls --write` printed this table ({options.threads} thread).\n\n"
        print(write_report("calls", f"{text}## Prediction\n\n{PREDICTION}\n\n## Outcome\n\n{table}\n"))


if __name__ == "__main__":
    main()
