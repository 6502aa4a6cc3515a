"""Runs torch's operator database through every path: `python -m tools.conformance`.

Results are written to out/conformance immediately, so an interrupted run resumes. A run over all cases with
the default seed also writes docs/conformance.md, and Inductor's verdicts, which are part of the repository.
With --kernels triton, kernels are Triton's and run in its interpreter, with --kernels gpu they run on a GPU;
results are in out/conformance-triton (-gpu), pages are docs/conformance-triton.md (-gpu).

Exit status 1 if less than 99 % of the cases that Inductor gets right pass, 2 if cases still have to run.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from tools.conformance.cases import SEED, every, list_cases, op_table, stratified
from tools.conformance.programs import Kernels
from tools.conformance.report import render
from tools.conformance.results import Outcome, StockVerdict
from tools.conformance.run import SHIPPED, Again, Only, jobs_of, open_store, pool_options, run_cases
from tools.conformance.summary import Summary

_ROOT = Path(__file__).parents[2]
_NAMES = {
    Kernels.CPP: "conformance",
    Kernels.TRITON: "conformance-triton",
    Kernels.GPU: "conformance-gpu",
}  # of folders of results, and of pages
_GOAL = 0.99


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line (by default the process's); returns the exit status."""
    options = _arguments(argv)
    kernels = Kernels(options.kernels)
    name = _NAMES[kernels]
    out = Path(options.out or f"out/{name}")
    cases = list_cases(op_table(), options.seed, kernels.device)
    whole = options.sample is None and not options.op and options.every is None
    if options.op:
        cases = [case for case in cases if case.op in options.op]
    else:
        cases = every(cases, options.every or 1)
    if options.sample is not None:
        cases = stratified(cases, options.sample)
    print(f"torch {torch.__version__}, seed {options.seed}, {len(cases)} cases", flush=True)
    store = open_store(out, kernels.device)
    jobs = jobs_of(cases, store, Again(options.again), options.only and Only(options.only))
    pool = pool_options(out, options.workers, options.timeout, options.budget_seconds, kernels)
    with _Display(len(jobs)) as display:
        summary = run_cases(cases, jobs, store, pool, display.show)
    _print_summary(summary)
    if whole and options.seed == SEED and not summary.missing:
        page = Path(options.page or _ROOT / "docs" / f"{name}.md")
        page.write_text(render(summary, options.seed, kernels), encoding="utf-8")
        if kernels is Kernels.CPP:
            store.write_verdicts(cases, SHIPPED)
    if summary.missing:
        return 2
    return 0 if summary.share >= _GOAL else 1


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tools.conformance", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    add = parser.add_argument
    add("--kernels", choices=[k.value for k in Kernels], default=Kernels.CPP.value,
        help="what kernels are written in (default %(default)s)")  # fmt: skip
    add("--seed", type=int, default=SEED, help="chooses the random samples (default %(default)s)")
    add(
        "--sample",
        type=int,
        metavar="N",
        help="N cases of all dtypes, from all over the database, instead of all",
    )
    add("--every", type=int, metavar="N", help="every Nth operator")
    add("--op", action="append", metavar="NAME", help="only this operator (may be given again)")
    add("--again", choices=[a.value for a in Again], default=Again.STALE.value,
        help="cases with an outcome that run again: stale (other sources; the default), failed, all, none")  # fmt: skip
    add("--only", choices=[o.value for o in Only], help="one side: our outcomes, or Inductor's verdicts")
    add("--workers", type=int, default=2, help="processes (default %(default)s)")
    add("--timeout", type=float, default=300.0, help="seconds for a case (default %(default)s)")
    add("--budget-seconds", type=float, metavar="S", help="stop after so long; the next run goes on")
    add("--out", help="folder of results and caches (default out/conformance, -triton, or -gpu)")
    add("--page", help="where the page of a whole run goes (default in docs)")
    return parser.parse_args(argv)


class _Display:
    """A progress bar on a terminal, and a line for each failure everywhere."""

    def __init__(self, total: int) -> None:
        self.console = Console(soft_wrap=True)
        self.progress = Progress(
            TextColumn("[progress.description]{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            console=self.console,
            disable=not self.console.is_terminal,
        )
        self.task = self.progress.add_task("conformance", total=total)

    def __enter__(self) -> _Display:
        self.progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.progress.stop()

    def show(self, result: Outcome | StockVerdict) -> None:
        """Prints the outcome of a job."""
        self.progress.advance(self.task)
        if isinstance(result, Outcome):
            for failure in result.failures:
                line = f"{result.case}: {failure.stage.value} {failure.code}: {failure.reason}"
                self.console.print(line, markup=False, highlight=False)


def _print_summary(summary: Summary) -> None:
    counted, failing = len(summary.counted), len(summary.failing)
    print(
        f"{counted - failing} of {counted} cases that Inductor gets right pass ({100 * summary.share:.2f} %)"
    )
    if summary.missing:
        print(f"{summary.missing} cases still have to run: the same command goes on")


if __name__ == "__main__":
    sys.exit(main())
