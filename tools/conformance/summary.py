"""Our side's outcomes and Inductor's verdicts together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tools.conformance.cases import CaseId
from tools.conformance.results import Outcome
from tools.conformance.stock import Verdict


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
    def right_in_stock(self) -> bool:
        """Returns whether Inductor equals eager, whichever of them computes the case."""
        return not self.verdict.error and not self.outcome.broken

    @property
    def counts(self) -> bool:
        """Returns whether Inductor compiles the case, and gets it right."""
        return self.right_in_stock and self.verdict.graphs > 0


@dataclass(frozen=True, slots=True)
class Summary:
    """All cases with both results; `missing` have not run yet."""

    judged: tuple[Judged, ...]
    missing: int = 0

    @property
    def counted(self) -> list[Judged]:
        """The cases that Inductor gets right. They have to pass every stage."""
        return [j for j in self.judged if j.counts]

    @property
    def left_to_eager(self) -> list[Judged]:
        """The cases of which Inductor compiles nothing: there is no graph to capture."""
        return [j for j in self.judged if j.right_in_stock and not j.counts]

    @property
    def wrong_in_stock(self) -> list[Judged]:
        """The cases that Inductor, or eager, refuses or gets wrong."""
        return [j for j in self.judged if not j.right_in_stock]

    @property
    def failing(self) -> list[Judged]:
        """Those of the counted that fail in a stage."""
        return [j for j in self.counted if not j.outcome.passed]

    @property
    def share(self) -> float:
        """The share of the counted cases that pass, from 0 to 1."""
        counted = self.counted
        return 1.0 if not counted else 1.0 - len(self.failing) / len(counted)


def summarise(
    cases: Iterable[CaseId], outcomes: Mapping[CaseId, Outcome], verdicts: Mapping[CaseId, Verdict]
) -> Summary:
    """Summarises the outcomes."""
    chosen = list(cases)
    judged = [case for case in chosen if case in outcomes and case in verdicts]
    return Summary(
        tuple(Judged(outcomes[case], verdicts[case]) for case in judged), len(chosen) - len(judged)
    )
