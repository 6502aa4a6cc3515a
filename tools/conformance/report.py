"""`docs/conformance.md`: totals a stage, and every case that fails, with its reason."""

from __future__ import annotations

import platform
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch

from tools.conformance.cases import CaseId
from tools.conformance.results import Outcome
from tools.conformance.stages import Stage
from tools.conformance.upstream import Verdict

__all__ = ["Judged", "Summary", "failing_lines", "render", "summarise"]


@dataclass(frozen=True, slots=True)
class Judged:
    """A case with both results."""

    outcome: Outcome
    verdict: Verdict

    @property
    def case(self) -> CaseId:
        """The case."""
        return self.outcome.case

    @property
    def counts(self) -> bool:
        """Whether upstream compiles the case and gets it right."""
        return self.verdict.counts and not self.outcome.broken


@dataclass(frozen=True, slots=True)
class Summary:
    """`counted` are the cases that upstream gets right."""

    judged: tuple[Judged, ...]

    @property
    def counted(self) -> list[Judged]:
        """The cases that upstream compiles and gets right."""
        return [j for j in self.judged if j.counts]

    @property
    def failing(self) -> list[Judged]:
        """Those of the counted that fail in some stage of ours."""
        return [j for j in self.counted if not j.outcome.passed]

    @property
    def share(self) -> float:
        """The share of the counted cases that pass every stage, from 0 to 1."""
        counted = self.counted
        return 1.0 if not counted else 1.0 - len(self.failing) / len(counted)


def summarise(
    cases: Iterable[CaseId], outcomes: dict[CaseId, Outcome], verdicts: dict[CaseId, Verdict]
) -> Summary:
    """What is known of the cases; those without both results are left out."""
    known = [case for case in cases if case in outcomes and case in verdicts]
    return Summary(tuple(Judged(outcomes[case], verdicts[case]) for case in known))


def render(summary: Summary, seed: int) -> str:
    """The page."""
    return "\n".join(
        [*_head(summary, seed), *_totals(summary), *_failing(summary), *_not_counted(summary), ""]
    )


def _head(summary: Summary, seed: int) -> list[str]:
    return [
        "# Conformance",
        "",
        "<!-- written by `python -m tools.conformance`; do not edit -->",
        "",
        "Torch's operator database through capture, verifier, text and JSON round trips, interpreter and emitted "
        "Python, each held against eager with torch's tolerances. For each operator: its first sample in float32 (or "
        "its first dtype), and a random sample in another dtype.",
        "",
        f"torch {torch.__version__}, Python {platform.python_version()}, {platform.machine()}, seed {seed}.",
        "",
    ]


def _totals(summary: Summary) -> list[str]:
    counted, judged = summary.counted, summary.judged
    total = len(counted)
    rows = [(stage.value, sum(j.outcome.passed_in(stage) for j in counted)) for stage in Stage]
    rows.append(("**all stages**", total - len(summary.failing)))
    wrong = sum(bool(j.verdict.error) for j in judged)
    eager = sum(j.verdict.graphs == 0 and not j.verdict.error for j in judged)
    return [
        f"Of {len(judged)} cases, upstream's `torch.compile` compiles {total} and gets them right: these count. "
        f"It refuses or gets wrong {wrong}, and leaves {eager} to eager altogether.",
        "",
        "| stage | pass | of | share |",
        "| --- | ---: | ---: | ---: |",
        *(f"| {name} | {passed} | {total} | {_percent(passed, total)} |" for name, passed in rows),
        "",
    ]


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.2f} %" if whole else "–"


def _failing(summary: Summary) -> list[str]:
    if not summary.failing:
        return ["## Failing cases", "", "None.", ""]
    return [
        "## Failing cases",
        "",
        "| case | stage | code | reason |",
        "| --- | --- | --- | --- |",
        *failing_lines(summary.failing),
        "",
    ]


def failing_lines(judged: Sequence[Judged]) -> list[str]:
    """A table row for each failure."""
    return [
        f"| `{j.case}` | {failure.stage.value} | {failure.code} | {_cell(failure.reason)} |"
        for j in judged
        for failure in j.outcome.failures
    ]


def _not_counted(summary: Summary) -> list[str]:
    others = [j for j in summary.judged if not j.counts]
    if not others:
        return []
    return [
        "## Cases that do not count",
        "",
        "| case | upstream | ours |",
        "| --- | --- | --- |",
        *(f"| `{j.case}` | {_cell(_upstream(j))} | {_ours(j.outcome)} |" for j in others),
        "",
    ]


def _upstream(judged: Judged) -> str:
    if judged.outcome.broken:
        return "eager: " + judged.outcome.broken
    return judged.verdict.error or "compiles nothing of it"


def _ours(outcome: Outcome) -> str:
    if outcome.broken:
        return "–"
    if outcome.passed:
        return "passes"
    return ", ".join(f"{f.stage.value} {f.code}" for f in outcome.failures)


def _cell(text: str) -> str:
    """Text for a table cell, shown as it is."""
    text = text if len(text) <= 200 else text[:199] + "…"
    return (
        text.replace("\\", "\\\\")
        .replace("|", "\\|")
        .replace("<", "&lt;")
        .replace("*", "\\*")
        .replace("_", "\\_")
    )
