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
        """Whether upstream gets the case right."""
        return not self.verdict.error and not self.outcome.broken

    @property
    def required(self) -> tuple[Stage, ...]:
        """The stages that it has to pass: all of them, but what upstream cannot trace either is left to eager by its
        compiler and by ours."""
        return tuple(Stage) if self.verdict.graphs else (Stage.BACKEND,)

    @property
    def passes(self) -> bool:
        """Whether it passes every required stage."""
        return all(map(self.outcome.passed_in, self.required))


@dataclass(frozen=True, slots=True)
class Summary:
    """All cases with both results."""

    judged: tuple[Judged, ...]

    @property
    def counted(self) -> list[Judged]:
        """The cases that upstream gets right."""
        return [j for j in self.judged if j.counts]

    @property
    def failing(self) -> list[Judged]:
        """Those of the counted that fail in a required stage."""
        return [j for j in self.counted if not j.passes]

    @property
    def share(self) -> float:
        """The share of the counted cases that pass, from 0 to 1."""
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
    return "\n".join([*_head(summary, seed), *_totals(summary), *_failing(summary), *_others(summary), ""])


def _head(summary: Summary, seed: int) -> list[str]:
    return [
        "# Conformance",
        "",
        "<!-- written by `python -m tools.conformance`; do not edit -->",
        "",
        "Torch's operator database through capture, verifier, text and JSON round trips, interpreter, emitted "
        'Python, and through `torch.compile(backend="wrapper_ir")`, each held against eager with torch\'s tolerances. For each operator: its first sample in float32 (or '
        "its first dtype), and a random sample in another dtype.",
        "",
        f"torch {torch.__version__}, Python {platform.python_version()}, {platform.machine()}, seed {seed}.",
        "",
    ]


def _totals(summary: Summary) -> list[str]:
    counted, judged = summary.counted, summary.judged
    wrong = sum(bool(j.verdict.error) for j in judged)
    eager = sum(not j.verdict.graphs for j in counted)
    return [
        f"Of {len(judged)} cases, upstream's `torch.compile` gets {len(counted)} right: these count. It refuses or gets "
        f"wrong {wrong}. Of those that count it compiles nothing of {eager}, which eager runs: these have to pass "
        f"`{Stage.BACKEND}` only, which is `torch.compile` with our backend; all others have to pass every stage.",
        "",
        "| stage | pass | of | share |",
        "| --- | ---: | ---: | ---: |",
        *(_row(stage.value, counted, stage) for stage in Stage),
        _total("**all**", len(counted) - len(summary.failing), len(counted)),
        "",
    ]


def _row(name: str, counted: Sequence[Judged], stage: Stage) -> str:
    required = [j for j in counted if stage in j.required]
    return _total(name, sum(j.outcome.passed_in(stage) for j in required), len(required))


def _total(name: str, passed: int, total: int) -> str:
    return f"| {name} | {passed} | {total} | {_percent(passed, total)} |"


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
    """A table row for each failure in a required stage."""
    return [
        f"| `{j.case}` | {failure.stage.value} | {failure.code} | {_cell(failure.reason)} |"
        for j in judged
        for failure in j.outcome.failures
        if failure.stage in j.required
    ]


def _others(summary: Summary) -> list[str]:
    others = [j for j in summary.judged if not j.counts or not j.verdict.graphs]
    if not others:
        return []
    return [
        "## Cases that upstream refuses, gets wrong or leaves to eager",
        "",
        "| case | upstream | ours |",
        "| --- | --- | --- |",
        *(f"| `{j.case}` | {_cell(_upstream(j))} | {_ours(j.outcome)} |" for j in others),
        "",
    ]


def _upstream(judged: Judged) -> str:
    if judged.outcome.broken:
        return "eager: " + judged.outcome.broken
    return judged.verdict.error or "leaves it to eager"


def _ours(outcome: Outcome) -> str:
    if outcome.broken:
        return "–"
    if outcome.passed:
        return "passes every stage"
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
