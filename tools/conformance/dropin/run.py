"""Runs features in separate processes, and renders the page of results."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import astuple, dataclass
from pathlib import Path

import torch

from tools.conformance.dropin import programs

_ROOT = Path(__file__).parents[3]
PAGE = _ROOT / "docs" / "conformance-drop-in.md"
FEATURES = sorted(p.stem for p in Path(programs.__path__[0]).glob("[a-z]*.py"))
"""The files of programs, one a feature."""
WORKER = [sys.executable, "-m", "tools.conformance.dropin.worker"]
_ENDED = "the process ended with"
_KINDS = ("equal", "error", "as stock", "as eager", "wrong")


@dataclass(frozen=True, slots=True)
class Row:
    """One program, compiled with fixed or dynamic sizes, and its verdict."""

    feature: str
    name: str
    dynamic: bool
    kind: str
    detail: str = ""

    @property
    def wrong(self) -> bool:
        """True if ours differs from stock."""
        return self.kind == "wrong"


def run_features(features: Sequence[str], text: str, jobs: int, out: Path) -> list[Row]:
    """Runs the programs of these features that have `text` in their name.

    Rows go to `out` as they come, and those that are there and not wrong are not run again.
    """
    out.mkdir(parents=True, exist_ok=True)

    def rows_of(feature: str) -> list[Row]:
        path = out / f"{feature}.jsonl"
        stored = [Row(*json.loads(x)) for x in path.read_text().splitlines()] if path.exists() else []
        stored_rows = {(r.name, r.dynamic): r for r in stored}
        selection = [r for r in stored_rows.values() if text in r.name and not r.wrong]
        with path.open("a") as file:
            for row in _run(feature, text, [[r.name, r.dynamic] for r in selection]):
                file.write(json.dumps(astuple(row)) + "\n")
                file.flush()
                selection.append(row)
        return selection

    with ThreadPoolExecutor(jobs) as pool:
        return [row for rows in pool.map(rows_of, features) for row in rows]


def _run(feature: str, text: str, skipped: list[list[object]]) -> Iterator[Row]:
    """The rows of a feature.

    A program that ends its process is a row too, and a new process runs those after it.
    """
    ended: Row | None = None
    for row in _process(feature, text, skipped):
        mode = "dynamic" if row.dynamic else "fixed"
        print(f"{feature}.{row.name} {mode}: {row.kind} {' '.join(row.detail.split())[:400]}", flush=True)
        skipped = [*skipped, [row.name, row.dynamic]]
        ended = row if row.detail.startswith(_ENDED) else None
        yield row
    if ended is not None and ended.name:
        yield from _run(feature, text, skipped)


def _process(feature: str, text: str, skipped: list[list[object]]) -> Iterator[Row]:
    command = [*WORKER, feature, text, json.dumps(skipped)]
    name, dynamic, stock_ran, open_ = "", False, True, False
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=_ROOT) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if not line.startswith("{"):  # output of programs
                continue
            answer = json.loads(line)
            if "start" in answer:
                name, dynamic, stock_ran, open_ = answer["start"], answer["dynamic"], False, True
            elif "stock" in answer:
                stock_ran = True
            else:
                open_ = False
                yield Row(feature, name, dynamic, answer["kind"], answer["detail"])
    if open_:
        kind = "wrong" if stock_ran else "as stock"
        yield Row(feature, name, dynamic, kind, f"{_ENDED} {process.returncode}")
    elif process.returncode:
        yield Row(feature, "", False, "wrong", f"{_ENDED} {process.returncode}")


def render(rows: Sequence[Row]) -> str:
    """The page of results."""
    lines = [
        "# Drop-in list",
        "",
        "<!-- Written by `python -m tools.conformance.dropin`; do not edit. -->",
        "",
        f"{len({(r.feature, r.name) for r in rows})} small programs by feature, each compiled by stock `torch.compile` and by "
        "the backend `wrapper_ir`",
        f"(torch {torch.__version__.split('+')[0]}, CPU), with fixed sizes and with dynamic ones. Compared are results, changed arguments,",
        "gradients, object identity, layouts, the random state and errors. *error*: both raise the same one. *as stock*:",
        "stock cannot compile the program, or its kernel ends the process. *as eager*: stock differs from eager mode, and ours does not.",
        "",
        "| feature | runs | " + " | ".join(_KINDS) + " |",
        "| --- | --- | " + " | ".join("---" for _ in _KINDS) + " |",
    ]
    for feature in sorted({r.feature for r in rows}):
        counts = Counter(r.kind for r in rows if r.feature == feature)
        cells = (feature, sum(counts.values()), *(counts[k] for k in _KINDS))
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    different = [r for r in rows if r.wrong]
    if different:
        lines += ["", "## Different", "", "| program | sizes | difference |", "| --- | --- | --- |"]
        for r in different:
            detail = " ".join(r.detail.split())[:160].replace("|", "\\|")
            lines.append(f"| {r.feature}.{r.name} | {'dynamic' if r.dynamic else 'fixed'} | {detail} |")
    return "\n".join([*lines, ""])
