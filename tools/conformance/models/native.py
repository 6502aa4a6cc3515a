"""Real models as libraries without torch, beside eager: `python -m tools.conformance.models.native`.

Each model is exported with torch.export in fixed sizes, and with a dynamic batch and length, and built in a
separate process with others. Results are written to out/conformance-models-native immediately, so an interrupted run
resumes. A run over all models writes docs/conformance-models-native.md. Exit status 1 if a library is wrong.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

import torch

from tools.conformance.models.libraries import DYNAMIC, STATEMENTS, Equal, ExportError, check_library
from tools.conformance.models.processes import ROOT, Job, Result, parse_job, run_jobs, stored_results
from tools.conformance.models.zoo import ModelCase, model_cases
from tools.conformance.native_refusals import PATTERN, refusal_lines
from tools.conformance.results import tidy

_PAGE = ROOT / "docs" / "conformance-models-native.md"
_WORKER = (sys.executable, "-m", "tools.conformance.models.native", "--worker")
_TEXT = (
    "The models of [the list](conformance-models.md) as libraries that need no torch, torch {version}. Each is "
    "exported with its loss (without CTC's, which torch.export cannot trace), once in fixed sizes and once with a "
    "dynamic batch and length where torch.export finds them dynamic; captured with fused convolutions; its constants "
    "are packed and its memory is planned. `wrapper_ir_native.load` calls it twice, and in other sizes, too. Results "
    "are held against eager within the tolerances of that page."
)
_JOBS = 24
"""Libraries that one process builds and calls."""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line (by default the process's); returns the exit status."""
    options = _arguments(argv)
    if options.worker:
        return _work([parse_job(text) for text in options.worker])
    cases = model_cases()
    names = [name for name in cases if not options.model or name in options.model]
    file = Path(options.out) / f"results-{torch.__version__}.jsonl"
    file.parent.mkdir(parents=True, exist_ok=True)
    stored = dict(stored_results(file))
    chosen = [(name, s) for s in options.statement or STATEMENTS for name in names]
    missing = [job for job in chosen if job not in stored or (options.again and _has_failed(stored[job]))]
    for begin in range(0, len(missing), _JOBS):
        for result in run_libraries(missing[begin : begin + _JOBS], options.timeout):
            stored[result["name"], result["statement"]] = result
            with file.open("a", encoding="utf-8") as lines:
                lines.write(json.dumps(result) + "\n")
            why = result["error"] or result["export"]
            print(result["name"], result["statement"], _cell(result), why, flush=True)
    wanted = [(name, statement) for name in names for statement in STATEMENTS]  # in the order of the page
    results = [stored[key] for key in wanted if key in stored]
    text = render(results, cases)
    print(text)
    if len(results) < len(wanted):
        print(f"{len(wanted) - len(results)} results are missing: run again")
    if options.write or not (options.model or len(results) < len(wanted)):
        _PAGE.write_text(text, encoding="utf-8")
    return 1 if any(r["error"] and not _is_refused(r) for r in results) else 0


def run_libraries(jobs: Sequence[Job], timeout: float) -> Iterator[Result]:
    """Checks statements about libraries of models, in a separate process."""

    def lost(job: Job, side: str, failure: str) -> Result:
        return _result(*job, **{"export" if side == "export" else "error": failure})

    return run_jobs(_WORKER, jobs, timeout, lost)


def render(results: Sequence[Result], cases: Mapping[str, ModelCase]) -> str:
    """A row for each model that ran, each failure, and each refusal."""
    refused = [r for r in results if _is_refused(r)]
    wrong = [r for r in results if r["error"] and not _is_refused(r)]
    total = len(cases) * len(STATEMENTS)
    part = f" So far {len(results)} of {total} cases ran." if len(results) < total else ""
    lines = [
        "# Conformance: models as native libraries",
        "",
        "<!-- written by `python -m tools.conformance.models.native`; do not edit -->",
        "",
        f"{_TEXT.format(version=torch.__version__)}{part}",
        "",
        _totals(results, len(refused), len(wrong)),
        "",
        *_rows(results, cases),
    ]
    unexported = [(r, r["export"]) for r in results if r["export"]]
    for title, pairs in (
        ("Wrong", [(r, r["error"]) for r in wrong]),
        ("What torch.export refuses", unexported),
    ):
        lines += ["", f"## {title}", "", *([] if pairs else ["None."])]
        lines += [f"- {r['name']}, {r['statement']}: {' '.join(error.split())[:300]}" for r, error in pairs]
    errors = {f"{r['name']}, {r['statement']}": r["error"] for r in refused}
    lines += ["", "## Refused by name", "", *(refusal_lines(errors) if errors else ["None."])]
    return "\n".join(lines) + "\n"


def _totals(results: Sequence[Result], refused: int, wrong: int) -> str:
    models, exported = len({r["name"] for r in results}), sum(not r["export"] for r in results)
    return (
        f"Of {len(results)} cases of {models} models torch.export exports {exported}; of these "
        f"{exported - refused - wrong} are equal to eager, {refused} are refused by name, {wrong} are wrong. "
        "Differences are the largest ones, relative to the largest number of a result."
    )


def _rows(results: Sequence[Result], cases: Mapping[str, ModelCase]) -> list[str]:
    lines = [
        "| family | model | fixed sizes | dynamic sizes | difference |",
        "| --- | --- | --- | --- | --- |",
    ]
    for name in dict.fromkeys(r["name"] for r in results):
        own = {r["statement"]: r for r in results if r["name"] == name}
        cells = [_cell(own[s]) if s in own else "" for s in STATEMENTS]
        equal = [r["difference"] for r in own.values() if not _has_failed(r)]
        difference = f"{max(equal):.0e}" if equal else ""
        lines.append(f"| {cases[name].family} | {name} | {' | '.join(cells)} | {difference} |")
    return lines


def _cell(result: Result) -> str:
    if result["export"]:
        return "not exported"
    if result["error"]:
        return "refused" if _is_refused(result) else "**wrong**"
    if result["statement"] == DYNAMIC:
        return f"equal: {', '.join(result['dimensions'])}" if result["dimensions"] else "all sizes are fixed"
    return "equal"


def _has_failed(result: Result) -> bool:
    return bool(result["error"] or result["export"])


def _is_refused(result: Result) -> bool:
    return re.search(PATTERN, result["error"]) is not None


def _result(name: str, statement: str, *, error: str = "", export: str = "") -> Result:
    """A failure, or with neither `error` nor `export` (torch.export's failure) a success."""
    return {"name": name, "statement": statement, "error": error, "export": export, **asdict(Equal())}


def _work(jobs: Sequence[Job]) -> int:
    """A worker: a line for each step it comes to, and one for each statement about a model."""
    cases = model_cases()
    for name, statement in jobs:
        try:
            found = check_library(
                cases[name], statement, lambda step: print(json.dumps({"at": step}), flush=True)
            )
            result = {**_result(name, statement), **asdict(found)}
        except ExportError as error:  # torch's: the case does not count
            result = _result(name, statement, export=tidy(str(error)))
        except Exception as error:
            result = _result(name, statement, error=tidy(f"{type(error).__name__}: {error}"))
        print(json.dumps(result), flush=True)
    return 0


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tools.conformance.models.native", description=__doc__)
    parser.add_argument("--model", action="append", help="only this model; can be given again")
    parser.add_argument("--statement", action="append", choices=STATEMENTS, help="only this form")
    parser.add_argument("--write", action="store_true", help="write the page of what has run")
    parser.add_argument("--again", action="store_true", help="run also what failed")
    parser.add_argument("--out", default="out/conformance-models-native", help="folder of the results")
    parser.add_argument("--timeout", type=float, default=1200.0, help="seconds for one library")
    parser.add_argument("--worker", nargs="+", help=argparse.SUPPRESS)
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
