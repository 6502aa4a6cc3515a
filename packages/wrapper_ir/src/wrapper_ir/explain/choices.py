"""Why kernels and operators are what they are: what there was to choose from, who chose, and the times."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TypedDict

from wrapper_ir.artifact import Artifact
from wrapper_ir.explain.model import Candidate, Choice, ExplainedKernel, ExplainedOp
from wrapper_ir.kernels import KernelDef, MultiKernel, OperatorKernel, TritonConfig, TritonKernel

__all__ = ["CHOICES", "choices_json", "choices_of"]

CHOICES = "choices.json"
"""The extension of an artifact that has the choices which were made before: a list of objects, each with `subject`, `kernels`,
`why` and `candidates` (`name`, `microseconds` or null, `chosen`, `detail`)."""


class _Item(TypedDict):
    """A choice in the extension."""

    subject: str
    kernels: list[object]
    why: str
    candidates: list[object]


def choices_json(choices: Sequence[tuple[Choice, Sequence[str]]], before: str = "") -> str:
    """The extension's text: choices, each with the names of the kernels and operators that it was about; `before` is what
    the artifact had, whose choices about other subjects stay."""
    subjects = {choice.subject for choice, _ in choices}
    found: list[_Item] = [item for item in _read(before) if item["subject"] not in subjects]
    for choice, kernels in choices:
        candidates = [
            {"name": c.name, "microseconds": c.microseconds, "chosen": c.chosen, "detail": c.detail}
            for c in choice.candidates
        ]
        found.append(
            _Item(subject=choice.subject, kernels=list(kernels), why=choice.why, candidates=list(candidates))
        )
    return json.dumps(found, sort_keys=True)


def choices_of(
    artifact: Artifact, explained: Sequence[ExplainedOp], kernels: Sequence[ExplainedKernel]
) -> Iterator[Choice]:
    """Choices that were recorded, then those that the program leaves open, then why the other kernels and operators are
    what they are."""
    launches = {k.name: k.ops for k in kernels}
    calls: dict[str, list[int]] = {}
    for op in explained:
        if op.extern:
            calls.setdefault(op.extern, []).append(op.index)
    told: set[str] = set()
    for item in _read(artifact.extensions.get(CHOICES, "")):
        names = [n for n in item["kernels"] if isinstance(n, str)]
        told.update(names)
        ops = tuple(sorted({i for n in names for i in (*launches.get(n, ()), *calls.get(n, ()))}))
        yield Choice(
            subject=item["subject"],
            why=item["why"],
            ops=ops,
            candidates=tuple(_candidate(c) for c in item["candidates"] if isinstance(c, dict)),
        )
    for kernel in artifact.program.kernels:
        if kernel.name not in told:
            yield from _of_kernel(kernel, launches.get(kernel.name, ()))
    for name, at in calls.items():
        if name not in told:
            yield Choice(
                subject=name, why="an operator of a library: no other way was offered", ops=tuple(at)
            )


def _of_kernel(kernel: KernelDef, ops: tuple[int, ...]) -> Iterator[Choice]:
    match kernel:
        case MultiKernel():
            yield Choice(
                subject=f"@{kernel.name}",
                why=f"open: one of these is chosen by {kernel.choice.value} when the program is tuned or runs",
                ops=ops,
                candidates=tuple(Candidate(name=f"@{v.kernel}") for v in kernel.variants),
            )
        case TritonKernel(configs=configs) if len(configs) > 1:
            yield Choice(
                subject=f"@{kernel.name}",
                why=f"open: one of {len(configs)} configs of {_heuristic(kernel)} is taken when it is tuned, else the first",
                ops=ops,
                candidates=tuple(Candidate(name=_config(c), chosen=i == 0) for i, c in enumerate(configs)),
            )
        case TritonKernel(configs=(one,)):
            yield Choice(
                subject=f"@{kernel.name}",
                why=f"the only config of {_heuristic(kernel)}",
                ops=ops,
                candidates=(Candidate(name=_config(one), chosen=True),),
            )
        case OperatorKernel():
            yield Choice(subject=f"@{kernel.name}", why="an operator in place of a kernel", ops=ops)
        case _:
            yield Choice(
                subject=f"@{kernel.name}",
                why=f"the {kernel.kind} kernel that was generated for these ops",
                ops=ops,
            )


def _heuristic(kernel: TritonKernel) -> str:
    return f"the heuristic {kernel.heuristic}" if kernel.heuristic else "its definition"


def _config(config: TritonConfig) -> str:
    meta = [f"{name}={value}" for name, value in config.meta]
    return " ".join([*meta, f"warps={config.num_warps}", f"stages={config.num_stages}"])


def _candidate(item: Mapping[str, object]) -> Candidate:
    time = item.get("microseconds")
    return Candidate(
        name=str(item.get("name", "")),
        microseconds=float(time) if isinstance(time, int | float) else None,
        chosen=item.get("chosen") is True,
        detail=str(item.get("detail", "")),
    )


def _read(text: str) -> list[_Item]:
    """The choices of the extension; what has another form is left out."""
    try:
        found = json.loads(text or "[]")
    except (ValueError, RecursionError):
        return []
    return [
        _Item(subject=subject, kernels=kernels, why=why, candidates=candidates)
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
