"""Torch's operator database in one form, ours and Inductor's, on the same cases: shared by `fx.py`, `cpp.py`
and `planned.py`.

Cases are those that Inductor's Python wrapper gets right, in an order that makes every part of a run a fair
sample. Results are written to a folder of `out/` immediately, so an interrupted run resumes. A run over all
cases writes the page. Exit status 1 if less than the goal are right, or one that no error refuses by name, if
those are counted apart, is wrong; 2 if cases still have to run. With
`--kernels gpu` inputs are on a GPU, as are Triton's kernels, and Inductor's side does not run.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

from tools.conformance.cases import SEED, CaseId, every, list_cases, op_table
from tools.conformance.native_refusals import refusal_lines
from tools.conformance.pool import BUILD, Answer, Job, run_jobs
from tools.conformance.programs import Kernels
from tools.conformance.results import outcome_of, tidy, verdict_of
from tools.conformance.run import open_store, pool_options

_ROOT = Path(__file__).parents[2]
_OF_THE_CASE = (
    (r"kernel \S+:", "kernel …:"),
    (r"\b(buf|arg)\d+(_\d+)*\b", r"\1…"),
    (r"torch\.ops\.\w+\.\w+\.\w+", "torch.ops.…"),
)
"""Names in Inductor's errors, and their replacements in the page."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sides:
    """One form of programs.

    `ours` and `stock` are names of jobs of the two sides (`worker.py`), `names` those in the page; the second
    one is empty if Inductor has no counterpart. `command` is a module of this folder, `title` and `text`
    begin the page. Inductor's side runs on the first `stock_cases` (None: on all). Ours are built
    `build_together` at a time before they run, unless that is 0.
    """

    command: str
    ours: str
    stock: str
    names: tuple[str, str]
    title: str
    text: str
    goal: float
    stock_cases: int | None = None
    build_together: int = 0
    refused: str = ""
    """A pattern of errors that refuse a case by name, if they are counted apart."""

    def name(self, kernels: Kernels) -> str:
        """Name of the page, unless the command line sets it, and of the folder of results."""
        return f"conformance-{self.command}" + ("-gpu" if kernels is Kernels.GPU else "")


@dataclass(frozen=True, slots=True)
class Result:
    """Outcome of a case on one side; `error` is empty if it is right.

    `slots` counts those of its plans, if it was planned.
    """

    side: str
    case: CaseId
    error: str
    slots: int = 0


def main(sides: Sides, argv: Sequence[str] | None = None) -> int:
    """Runs the command line (by default the process's); returns the exit status."""
    options = _arguments(sides, argv)
    kernels = Kernels(options.kernels)
    cases = counted_cases(options.sample, kernels, options.every)
    if not cases:
        sys.exit(
            "no case is known that stock gets right: run `python -m tools.conformance --kernels gpu` first"
        )
    if options.op:
        cases = [case for case in cases if case.op in options.op]
    out = Path(options.out or f"out/{sides.name(kernels)}")
    file = out / f"results-{torch.__version__}.jsonl"
    stored = {(r.side, r.case): r for r in _read(file)}
    stock = "" if kernels is Kernels.GPU else sides.stock
    chosen = [options.only] if options.only else [side for side in (sides.ours, stock) if side]
    wanted = [(side, case) for side in chosen for case in _cases_of(sides, side, cases)]
    jobs = [
        Job(side, case)
        for side, case in wanted
        if (side, case) not in stored or (options.again and stored[side, case].error)
    ]
    pool = pool_options(out, options.workers, options.timeout, options.budget_seconds, kernels)
    if sides.build_together and kernels is Kernels.CPP:
        own = [job.case for job in jobs if job.what == sides.ours]
        for _ in run_jobs(
            [Job(BUILD, c[0], tuple(c[1:])) for c in _batches(own, sides.build_together)], pool
        ):
            pass
    with closing(run_jobs(jobs, pool)) as answers:
        for answer in answers:
            result = result_of(sides, answer)
            stored[result.side, result.case] = result
            with file.open("a", encoding="utf-8") as results:
                results.write(json.dumps(asdict(result)) + "\n")
    done = [stored[key] for key in wanted if key in stored]
    text = render(sides, done, len(counted_cases(None, kernels, options.every)), kernels, options.every)
    print(text)
    missing = len(wanted) - len(done)
    is_part = options.sample is not None or options.every > 1 or options.only or options.op
    if options.write or not (missing or is_part):
        page = Path(options.page or _ROOT / "docs" / f"{sides.name(kernels)}.md")
        page.write_text(text, encoding="utf-8")
    if missing:
        print(f"{missing} results are missing: run again")
        return 2
    return 0 if share(done, sides.ours) >= sides.goal and not (sides.refused and _wrong(sides, done)) else 1


def _wrong(sides: Sides, results: Sequence[Result]) -> list[Result]:
    """Returns the cases of ours that are neither right nor refused by name."""
    return sorted(
        (r for r in results if r.error and not re.search(sides.refused, r.error)), key=lambda r: r.case
    )


def _cases_of(sides: Sides, side: str, cases: list[CaseId]) -> list[CaseId]:
    return cases[: sides.stock_cases] if side == sides.stock else cases


def _batches(cases: list[CaseId], length: int) -> list[list[CaseId]]:
    return [cases[begin : begin + length] for begin in range(0, len(cases), length)]


def counted_cases(sample: int | None, kernels: Kernels = Kernels.CPP, every_nth: int = 1) -> list[CaseId]:
    """Returns the cases that Inductor's Python wrapper gets right, of every Nth operator.

    The repository contains the verdicts; for a GPU they come from a run of `python -m tools.conformance
    --kernels gpu`.
    """
    where = "conformance-gpu" if kernels is Kernels.GPU else "conformance"
    verdicts = open_store(Path("out") / where, kernels.device).verdicts
    cases = [
        case
        for case in every(list_cases(op_table(), SEED, kernels.device), every_nth)
        if (verdict := verdicts.get(case)) is not None and not verdict.error and verdict.graphs
    ]
    random.Random(SEED).shuffle(cases)
    return cases[:sample]


def result_of(sides: Sides, answer: Answer) -> Result:
    """The result that a worker's answer means."""
    if answer.job.what == sides.stock:
        return Result(sides.stock, answer.job.case, verdict_of(answer).verdict.error)
    outcome = outcome_of(answer, "")
    error = outcome.broken or "; ".join(f"{f.stage.value} {f.code}: {f.reason}" for f in outcome.failures)
    return Result(sides.ours, answer.job.case, tidy(error), (answer.done or {}).get("slots", 0))


def share(results: Sequence[Result], side: str) -> float:
    """The share of a side's cases that are right, from 0 to 1."""
    errors = [r.error for r in results if r.side == side]
    return errors.count("") / len(errors) if errors else 1.0


def render(
    sides: Sides, results: Sequence[Result], total: int, kernels: Kernels = Kernels.CPP, every_nth: int = 1
) -> str:
    """Totals, and every case of ours that fails.

    `total` is how many cases there are, of every Nth operator.
    """
    options = " --kernels gpu" if kernels is Kernels.GPU else ""
    ours = sum(r.side == sides.ours for r in results)
    part = f" So far {ours} of {total} cases ran, which are a fair sample." if ours < total else ""
    if every_nth > 1:
        part += f" They are those of one operator in {every_nth}."
    planned = sum(r.slots > 0 for r in results)
    if planned:
        part += f" {planned} of them have slots, {sum(r.slots for r in results)} in all."
    if kernels is Kernels.GPU:
        part += f" On a GPU ({torch.cuda.get_device_name()})."
    elif sides.stock and not any(r.side == sides.stock for r in results):
        part += f" {sides.names[1]} has not run yet."
    lines = [
        f"# {sides.title}",
        "",
        f"Written by `python -m tools.conformance.{sides.command}{options}`, torch {torch.__version__}. {sides.text}{part}",
        "",
        "| converter | cases | right | share |",
        "| --- | --- | --- | --- |",
    ]
    if sides.refused:
        return "\n".join(lines[:4] + _with_refusals(sides, results)) + "\n"
    for side, name in zip((sides.ours, sides.stock), sides.names):
        errors = [r.error for r in results if r.side == side]
        if errors:
            lines.append(
                f"| {name} | {len(errors)} | {errors.count('')} | {100 * share(results, side):.1f} % |"
            )
    lines += ["", "## Where ours is wrong", "", "| case | why |", "| --- | --- |"]
    failing = sorted((r for r in results if r.side == sides.ours and r.error), key=lambda r: r.case)
    lines += [f"| `{r.case}` | {_cell(r.error)} |" for r in failing]
    if not sides.stock or kernels is Kernels.GPU:
        return "\n".join(lines) + "\n"
    reasons = Counter(_kind(r.error) for r in results if r.side == sides.stock and r.error)
    lines += ["", "## Why Inductor's is", "", "| cases | why |", "| --- | --- |"]
    lines += [f"| {count} | {_cell(reason)} |" for reason, count in reasons.most_common(12)]
    return "\n".join(lines) + "\n"


def _with_refusals(sides: Sides, results: Sequence[Result]) -> list[str]:
    """The tables of a side whose refusals are counted apart."""
    failing = sorted((r for r in results if r.error), key=lambda r: r.case)
    wrong = _wrong(sides, results)
    refused = [r for r in failing if r not in wrong]
    right = len(results) - len(failing)
    percent = f"{100 * right / max(len(results), 1):.1f} %"
    lines = ["| cases | right | share | refused by name | wrong |", "| --- | --- | --- | --- | --- |"]
    lines.append(f"| {len(results)} | {right} | {percent} | {len(refused)} | {len(wrong)} |")
    lines += ["", "## Wrong", ""]
    lines += ["| case | why |", "| --- | --- |"] if wrong else ["None."]
    lines += [f"| `{r.case}` | {_cell(r.error)} |" for r in wrong]
    return [*lines, "", "## Refused by name", "", *refusal_lines({str(r.case): r.error for r in refused})]


def _cell(text: str) -> str:
    """A message without the program that it shows."""
    return text.partition(" func @")[0].replace("|", "\\|")[:300]


def _kind(error: str) -> str:
    """An error without the names of the case, and without advice."""
    kind = error.partition(" Set TORCHDYNAMO_VERBOSE")[0]
    for pattern, word in _OF_THE_CASE:
        kind = re.sub(pattern, word, kind)
    return kind


def _read(file: Path) -> Iterator[Result]:
    file.parent.mkdir(parents=True, exist_ok=True)
    if not file.is_file():
        return
    for line in file.read_text(encoding="utf-8").splitlines():
        entry = json.loads(line)
        yield Result(entry["side"], CaseId(**entry["case"]), entry["error"], entry.get("slots", 0))


def _arguments(sides: Sides, argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog=f"python -m tools.conformance.{sides.command}", description=sides.text
    )
    parser.add_argument(
        "--kernels", choices=[Kernels.CPP.value, Kernels.GPU.value], default=Kernels.CPP.value
    )
    parser.add_argument("--sample", type=int, help="that many cases")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="every Nth operator")
    parser.add_argument("--op", action="append", help="only this operator (may be given again)")
    parser.add_argument("--only", choices=[sides.ours, sides.stock])
    parser.add_argument(
        "--write", action="store_true", help="write the page of what has run, also of a sample"
    )
    parser.add_argument("--page", help="where the page goes (default: in docs)")
    parser.add_argument("--again", action="store_true", help="cases that failed run again")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--timeout", type=float, default=300.0, help="seconds for one case")
    parser.add_argument("--budget-seconds", type=float, help="stop after that long; a next run goes on")
    parser.add_argument("--out", help="folder of results and caches")
    return parser.parse_args(argv)
