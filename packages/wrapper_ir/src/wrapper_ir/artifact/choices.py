"""Why kernels and operators of an artifact are what they are: the candidates, who chose, and the times; an artifact's extension."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypedDict

CHOICES = "choices.json"
"""The extension of an artifact that has the choices which were made before: a list of objects, each with `subject`, `kernels`,
`why` and `candidates` (`name`, `microseconds` or null, `chosen`, `detail`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One of several implementations: what it is, its time in microseconds where it was measured, and what else is known."""

    name: str
    microseconds: float | None = None
    chosen: bool = False
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Why something is implemented as it is. `subject` is a kernel (`@k`), an operator or an FX node, `ops` are the ops that it
    concerns, `why` says in words who chose, and `candidates` what could have been taken, the chosen one first."""

    subject: str
    why: str
    ops: tuple[int, ...] = ()
    candidates: tuple[Candidate, ...] = ()


class RecordedChoice(TypedDict):
    """A choice in the extension."""

    subject: str
    kernels: list[object]
    why: str
    candidates: list[object]


def choices_json(choices: Sequence[tuple[Choice, Sequence[str]]], before: str = "") -> str:
    """The extension's text: choices, each with the names of the kernels and operators that it was about; `before` is what
    the artifact had, whose choices about other subjects stay."""
    subjects = {choice.subject for choice, _ in choices}
    found: list[RecordedChoice] = [item for item in read_choices(before) if item["subject"] not in subjects]
    for choice, kernels in choices:
        candidates = [
            {"name": c.name, "microseconds": c.microseconds, "chosen": c.chosen, "detail": c.detail}
            for c in choice.candidates
        ]
        found.append(
            RecordedChoice(
                subject=choice.subject, kernels=list(kernels), why=choice.why, candidates=list(candidates)
            )
        )
    return json.dumps(found, sort_keys=True)


def read_choices(text: str) -> list[RecordedChoice]:
    """The choices in the text of the extension `CHOICES`; entries of another form are left out."""
    try:
        found = json.loads(text or "[]")
    except (ValueError, RecursionError):
        return []
    return [
        RecordedChoice(subject=subject, kernels=kernels, why=why, candidates=candidates)
        for item in (found if isinstance(found, list) else ())
        for subject, kernels, why, candidates in _parts(item)
    ]


def _parts(item: object) -> Iterator[tuple[str, list[object], str, list[object]]]:
    match item:
        case {
            "subject": str(subject),
            "kernels": list(kernels),
            "why": str(why),
            "candidates": list(candidates),
        }:
            yield subject, kernels, why, candidates
        case _:
            pass
