"""Torch's operator database through FX graphs, ours and Inductor's, on the same cases: `python -m tools.conformance.fx`.

Cases are those that Inductor's Python wrapper gets right, in an order that makes every part of a run a fair sample. Ours
are converted in both forms, and every graph has to be whole; Inductor's are what `fx_wrapper=True` gives. Results go to
out/conformance-fx as they come: a run that was stopped goes on where it was. A run over all cases writes
docs/conformance-fx.md. Exit status 1 if less than 99 % of ours are right, 2 if cases still have to run.
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

from tools.conformance.cases import SEED, CaseId, list_cases, op_table
from tools.conformance.pool import Answer, Job, run_jobs
from tools.conformance.results import outcome_of, tidy, verdict_of
from tools.conformance.run import open_store, pool_options

_ROOT = Path(__file__).parents[2]
_PAGE = _ROOT / "docs" / "conformance-fx.md"
_GOAL = 0.99
OURS, STOCK = "fx", "stock_fx"
_OF_THE_CASE = (
    (r"kernel \S+:", "kernel …:"),
    (r"\b(buf|arg)\d+(_\d+)*\b", r"\1…"),
    (r"torch\.ops\.\w+\.\w+\.\w+", "torch.ops.…"),
)
"""Names in Inductor's errors, and what stands for them in the page."""
_NAMES = {OURS: "fx_converter", STOCK: "Inductor's converter"}


@dataclass(frozen=True, slots=True)
class Result:
    """What became of a case on one side; `error` is empty where the graph gives eager's results."""

    side: str
    case: CaseId
    error: str


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line (the process's own, unless given); return the exit status."""
    options = _arguments(argv)
    cases = counted_cases(options.sample)
    out = Path(options.out)
    file = out / f"results-{torch.__version__}.jsonl"
    known = {(r.side, r.case): r for r in _read(file)}
    sides = [options.only] if options.only else [OURS, STOCK]
    jobs = [Job(side, case) for case in cases for side in sides if (side, case) not in known]
    pool = pool_options(out, options.workers, options.timeout, options.budget_seconds)
    with closing(run_jobs(jobs, pool)) as answers:
        for answer in answers:
            result = result_of(answer)
            known[result.side, result.case] = result
            with file.open("a", encoding="utf-8") as results:
                results.write(json.dumps(asdict(result)) + "\n")
    done = [r for (side, case), r in known.items() if case in set(cases) and side in sides]
    text = render(done)
    print(text)
    if len(done) < len(cases) * len(sides):
        print(f"{len(cases) * len(sides) - len(done)} results are missing: run again")
        return 2
    if options.sample is None and not options.only:
        _PAGE.write_text(text, encoding="utf-8")
    return 0 if share(done, OURS) >= _GOAL else 1


def counted_cases(sample: int | None) -> list[CaseId]:
    """The cases that Inductor's Python wrapper gets right, as the repository's verdicts say."""
    verdicts = open_store(Path("out/conformance")).verdicts
    cases = [
        case
        for case in list_cases(op_table(), SEED)
        if (verdict := verdicts.get(case)) is not None and not verdict.error and verdict.graphs
    ]
    random.Random(SEED).shuffle(cases)
    return cases[:sample]


def result_of(answer: Answer) -> Result:
    """The result that a worker's answer means."""
    if answer.job.what == STOCK:
        return Result(STOCK, answer.job.case, verdict_of(answer).verdict.error)
    outcome = outcome_of(answer, "")
    error = outcome.broken or "; ".join(f"{f.stage.value} {f.code}: {f.reason}" for f in outcome.failures)
    return Result(OURS, answer.job.case, tidy(error))


def share(results: Sequence[Result], side: str) -> float:
    """The share of a side's cases that are right, from 0 to 1."""
    errors = [r.error for r in results if r.side == side]
    return errors.count("") / len(errors) if errors else 1.0


def render(results: Sequence[Result]) -> str:
    """Totals, and every case of ours that fails."""
    lines = [
        "# FX graphs of the operator database",
        "",
        f"Written by `python -m tools.conformance.fx`, torch {torch.__version__}. Cases that stock `torch.compile` gets right "
        "on CPU, through FX graphs: ours in both forms, with all checks; Inductor's (`fx_wrapper=True`) without its checks of "
        "sizes, alignment and conditions, which its converter refuses.",
        "",
        "| converter | cases | right | share |",
        "| --- | --- | --- | --- |",
    ]
    for side, name in _NAMES.items():
        errors = [r.error for r in results if r.side == side]
        if errors:
            lines.append(
                f"| {name} | {len(errors)} | {errors.count('')} | {100 * share(results, side):.1f} % |"
            )
    lines += ["", "## Where ours is wrong", "", "| case | why |", "| --- | --- |"]
    failing = sorted((r for r in results if r.side == OURS and r.error), key=lambda r: r.case)
    lines += [f"| `{r.case}` | {_cell(r.error)} |" for r in failing]
    reasons = Counter(_kind(r.error) for r in results if r.side == STOCK and r.error)
    lines += ["", "## Why Inductor's is", "", "| cases | why |", "| --- | --- |"]
    lines += [f"| {count} | {_cell(reason)} |" for reason, count in reasons.most_common(12)]
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")[:300]


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
        yield Result(entry["side"], CaseId(**entry["case"]), entry["error"])


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tools.conformance.fx", description=__doc__)
    parser.add_argument("--sample", type=int, help="that many cases")
    parser.add_argument("--only", choices=[OURS, STOCK])
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--timeout", type=float, default=300.0, help="seconds for one case")
    parser.add_argument("--budget-seconds", type=float, help="stop after that long; a next run goes on")
    parser.add_argument("--out", default="out/conformance-fx")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
