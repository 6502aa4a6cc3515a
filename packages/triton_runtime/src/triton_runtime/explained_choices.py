"""Records the choices of a tuned artifact, with all candidates and their times, for explanations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from triton_runtime.tune import Entry
from triton_runtime.tune.decide import Decision
from wrapper_ir import ir
from wrapper_ir.artifact import Artifact
from wrapper_ir.artifact.choices import CHOICES, Candidate, Choice, choices_json

_MICRO = 1e6


def choice_of(kernel: ir.KernelDef, entry: Entry, decision: Decision, device: str) -> Choice:
    """Explains a choice: the decision, and the measurements of each candidate on `device`."""
    name_of = _variant if isinstance(kernel, ir.MultiKernel) else _same
    ranked = sorted(
        entry.order, key=lambda key: (key != decision.winner, decision.means.get(key, float("inf")))
    )
    if decision.inside_noise:
        how = f"the first of {len(decision.tied)} that the times do not tell apart"
    else:
        how = "the fastest"
    return Choice(
        subject=f"@{kernel.name}",
        why=f"measured on {device}: {how} of {len(entry.order)}",
        candidates=tuple(
            Candidate(
                name=name_of(kernel, key),
                microseconds=round(decision.means[key] * _MICRO, 3) if key in decision.means else None,
                chosen=key == decision.winner,
                detail=entry.failed.get(key, ""),
            )
            for key in ranked
        ),
    )


def _same(kernel: ir.KernelDef, key: str) -> str:
    return key


def _variant(kernel: ir.KernelDef, key: str) -> str:
    assert isinstance(kernel, ir.MultiKernel)
    return f"@{kernel.variants[int(key)].kernel}"


def with_explained(artifact: Artifact, program: ir.Program, choices: Mapping[str, Choice]) -> Artifact:
    """Adds these choices, by kernel, to the artifact's recorded ones, for explanations."""
    kernels: dict[str, ir.KernelDef] = {k.name: k for k in artifact.program.kernels}
    explained = []
    for name, choice in choices.items():
        subjects = [name]
        kernel = kernels[name]
        # its launches are now launches of the chosen kernel
        if isinstance(kernel, ir.MultiKernel):
            winner = next(c.name for c in choice.candidates if c.chosen).removeprefix("@")
            subjects = [winner]
            variants = [
                replace(c, detail=c.detail or _kind(kernels.get(c.name.removeprefix("@"))))
                for c in choice.candidates
            ]
            choice = replace(choice, candidates=tuple(variants))
        if any(k.name in subjects for k in program.kernels):
            explained.append((choice, subjects))
    if not explained:
        return artifact
    text = choices_json(explained, artifact.extensions.get(CHOICES, ""))
    return replace(artifact, extensions={**artifact.extensions, CHOICES: text})


def _kind(kernel: ir.KernelDef | None) -> str:
    match kernel:
        case ir.OperatorKernel():
            return f"operator {kernel.schema.partition('(')[0]}"
        case ir.TritonKernel(heuristic=heuristic) if heuristic:
            return f"Triton, {heuristic}"
        case _:
            return ""
