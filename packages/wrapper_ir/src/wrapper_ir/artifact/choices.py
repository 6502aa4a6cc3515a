"""Choices of implementations as an extension of an artifact: candidates, reasons and measured times."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypedDict

CHOICES = "choices.json"
"""The extension of an artifact with earlier choices.

It is a list of objects with `subject`, `kernels`, `why` and `candidates` (`name`, `microseconds` or null,
`chosen`, `detail`).
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One of several implementations, with its measured time in microseconds, if any, and further details."""

    name: str
    microseconds: float | None = None
    chosen: bool = False
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Reason for the choice of an implementation.

    `subject` is a kernel (`@k`), an operator or an FX node, `ops` are the positions of its ops. `why`
    describes in words who chose; `candidates` has the alternatives, the chosen one first.
    """

    subject: str
    why: str
    ops: tuple[int, ...] = ()
    candidates: tuple[Candidate, ...] = ()


class StoredChoice(TypedDict):
    """A choice as stored in the extension."""

    subject: str
    kernels: list[object]
    why: str
    candidates: list[object]


def choices_json(choices: Sequence[tuple[Choice, Sequence[str]]], before: str = "") -> str:
    """Returns the extension's text for choices, each with the names of its kernels and operators.

    Choices about other subjects in `before`, the artifact's earlier text, stay.
    """
    subjects = {choice.subject for choice, _ in choices}
    stored = [item for item in read_choices(before) if item["subject"] not in subjects]
    for choice, kernels in choices:
        candidates = [
            {"name": c.name, "microseconds": c.microseconds, "chosen": c.chosen, "detail": c.detail}
            for c in choice.candidates
        ]
        stored.append(
            StoredChoice(
                subject=choice.subject, kernels=list(kernels), why=choice.why, candidates=list(candidates)
            )
        )
    return json.dumps(stored, sort_keys=True)


def read_choices(text: str) -> list[StoredChoice]:
    """Returns the choices in the text of the extension `CHOICES`; malformed entries are skipped."""
    try:
        document = json.loads(text or "[]")
    except (ValueError, RecursionError):
        return []
    return [
        StoredChoice(subject=subject, kernels=kernels, why=why, candidates=candidates)
        for item in (document if isinstance(document, list) else ())
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
