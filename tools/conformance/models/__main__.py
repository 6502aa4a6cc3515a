"""Real models through `torch.compile`, ours beside stock and eager: `python -m tools.conformance.models`.

Each model runs in a separate process: its results, its gradients, and for decoders the tokens that it
generates over a static cache. Results are written to out/conformance-models immediately, so an interrupted
run resumes. A run over all models writes docs/conformance-models.md. Exit status 1 if a case of ours that
stock gets right is wrong.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

import torch

from tools.conformance.models.processes import ROOT, Job, Result, parse_job, run_jobs, stored_results
from tools.conformance.models.statements import STATEMENTS, check
from tools.conformance.models.zoo import ModelCase, model_cases

_PAGE = ROOT / "docs" / "conformance-models.md"
_WORKER = (sys.executable, "-m", "tools.conformance.models", "--worker")


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line (by default the process's); returns the exit status."""
    options = _arguments(argv)
    if options.worker:
        return _work([parse_job(text) for text in options.worker])
    cases = model_cases()
    names = [name for name in cases if not options.model or name in options.model]
    file = Path(options.out) / f"results-{torch.__version__}.jsonl"
    file.parent.mkdir(parents=True, exist_ok=True)
    stored = dict(stored_results(file)) if not options.again else {}
    missing = [name for name in names if any((name, s) not in stored for s in statements_of(cases[name]))]
    with ThreadPoolExecutor(options.workers) as pool:
        running = {pool.submit(run_model, cases[name], options.timeout): name for name in missing}
        for done in as_completed(running):
            for result in done.result():
                stored[result["name"], result["statement"]] = result
                with file.open("a", encoding="utf-8") as lines:
                    lines.write(json.dumps(result) + "\n")
                print(result["name"], result["statement"], _verdict(result), flush=True)
    results = [stored[name, s] for name in names for s in statements_of(cases[name])]
    text = render(results, cases)
    print(text)
    if not options.model:
        _PAGE.write_text(text, encoding="utf-8")
    return 1 if any(r["error"] for r in results) else 0


def statements_of(case: ModelCase) -> list[str]:
    """Returns the statements that apply to a model."""
    return [s for s in STATEMENTS if s != "generation" or case.generates]


def render(results: Sequence[Result], cases: dict[str, ModelCase]) -> str:
    """A row for each model, and each failure."""
    counted = [r for r in results if not r["stock"]]
    right = sum(not r["error"] for r in counted)
    exact = sum(bool(r["exact"]) for r in counted)
    lines = [
        "# Conformance: models",
        "",
        "<!-- written by `python -m tools.conformance.models`; do not edit -->",
        "",
        f"Models of transformers and torchvision in small configurations with random weights, torch {torch.__version__}, Python "
        f"{platform.python_version()}. Each is compiled by stock and by ours, without a fallback; results, gradients of all "
        "parameters, and eight tokens that decoders generate over a static cache are held against eager and against stock.",
        "",
        f"Of {len(results)} cases of {len({r['name'] for r in results})} models stock gets {len(counted)} right; of these ours "
        f"gets {right} right, {exact} of them with every bit of stock's results.",
        "",
        "| family | model | " + " | ".join(STATEMENTS) + " |",
        "| --- | --- |" + " --- |" * len(STATEMENTS),
    ]
    table = {(r["name"], r["statement"]): r for r in results}
    for name in dict.fromkeys(r["name"] for r in results):
        cells = [_verdict(table[name, s]) if (name, s) in table else "" for s in STATEMENTS]
        lines.append(f"| {cases[name].family} | {name} | {' | '.join(cells)} |")
    for title, key in (("Where ours is wrong", "error"), ("Where stock is wrong", "stock")):
        failing = [r for r in results if r[key]]
        lines += ["", f"## {title}", "", *([] if failing else ["None."])]
        lines += [f"- {r['name']}, {r['statement']}: {' '.join(r[key].split())[:300]}" for r in failing]
    return "\n".join(lines) + "\n"


def _verdict(result: Result) -> str:
    if result["stock"]:
        return "stock fails"
    if result["error"]:
        return "**wrong**"
    return "equal" if result["exact"] else "close"


def run_model(case: ModelCase, timeout: float) -> list[Result]:
    """Checks all statements about a model in a separate process.

    If the process ends, its current statement fails for its current side; another process runs the remaining
    ones.
    """

    def lost(job: Job, side: str, failure: str) -> Result:
        return _result(*job, **{"stock" if side == "stock" else "error": failure})

    jobs = [(case.name, statement) for statement in statements_of(case)]
    return list(run_jobs(_WORKER, jobs, timeout, lost))


def _result(name: str, statement: str, *, error: str = "", stock: str = "") -> Result:
    """A failure of one side: `stock` is stock's own failure."""
    return {
        "name": name,
        "statement": statement,
        "error": error,
        "stock": stock,
        "exact": False,
        "graphs": [0, 0],
    }


def _work(jobs: Sequence[Job]) -> int:
    """A worker: a line for each side it comes to, and one for each statement about a model."""
    cases = model_cases()
    for name, statement in jobs:
        try:
            found = check(cases[name], statement, lambda side: print(json.dumps({"at": side}), flush=True))
            result = {"name": name, "statement": statement, "stock": "", **found}
        except Exception as error:  # stock's: the case does not count
            result = _result(name, statement, stock=f"{type(error).__name__}: {error}")
        print(json.dumps(result), flush=True)
    return 0


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tools.conformance.models", description=__doc__)
    parser.add_argument("--model", action="append", help="only this model; can be given again")
    parser.add_argument("--again", action="store_true", help="run also what has a result")
    parser.add_argument("--out", default="out/conformance-models", help="folder of the results")
    parser.add_argument("--workers", type=int, default=2, help="processes at a time")
    parser.add_argument("--timeout", type=float, default=1200.0, help="seconds for one statement")
    parser.add_argument("--worker", nargs="+", help=argparse.SUPPRESS)
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
