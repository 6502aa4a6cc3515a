"""Prepares the runs that `wir compare` compares."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from wrapper_ir import ir
from wrapper_ir.artifact import Artifact
from wrapper_ir.errors import DebugError
from wrapper_ir.plugins.eager import EagerFrontend, EagerRun
from wrapper_ir.plugins.registry import frontend
from wrapper_ir_tools.cli.capture import call_factory
from wrapper_ir_tools.cli.run import checked_emitter
from wrapper_ir_tools.cli.subjects import SubjectChoices, make_subject
from wrapper_ir_tools.debugger.compare import Comparison, Mismatch, compare_constants, compare_runs
from wrapper_ir_tools.debugger.eager import compare_with_eager, constants_against_eager, flat_arguments
from wrapper_ir_tools.debugger.engines import engine_samples
from wrapper_ir_tools.debugger.samples import Sample, samples
from wrapper_ir_tools.debugger.streams import StreamOrder, other_stream_order
from wrapper_ir_tools.debugger.subject import InputChoice, Subject
from wrapper_ir_tools.debugger.tolerances import Tolerance, compare_contents

_INPUTS, _OF_MODEL = "inputs", "model"
"""A key of an artifact's metadata, and its value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareChoices:
    """The options of `wir compare`, except those of its subjects."""

    engine: str | None = None
    first_engine: str | None = None
    model: str | None = None
    frontend: str = "inductor"
    streams: str | None = None
    other_seed: int | None = None
    other_inputs: Path | None = None
    rtol: float | None = None
    atol: float | None = None

    @property
    def tolerance(self) -> Tolerance | None:
        """The tolerance that overrides those by element type."""
        if self.rtol is None and self.atol is None:
            return None
        return Tolerance(self.rtol or 0.0, self.atol or 0.0)


def compared(
    one: Artifact, two: Artifact, choices: CompareChoices, run: SubjectChoices
) -> tuple[tuple[str, ...], Comparison]:
    """Compares two runs.

    Returns the comparison, and lines about constants that differ and values that are not deterministic.
    """
    if choices.engine == "eager":
        return _with_eager(one, choices, run)
    subject = make_subject(one, run)
    notes = compare_constants(one, two) if one is not two else ()
    first = _samples(subject, choices.first_engine, run)
    second = _second(subject, two, choices, run)
    comparison = compare_runs(first, second, choices.tolerance)
    return (*notes, *_unsteady(subject, comparison.mismatch, choices)), comparison


def _second(
    subject: Subject, two: Artifact, choices: CompareChoices, run: SubjectChoices
) -> Iterator[Sample]:
    """Prepares the second run: on other inputs, in another stream order, or in another engine, as
    requested."""
    # Any: the values of a TypedDict
    changed: dict[str, Any] = {}
    if choices.other_seed is not None:
        changed["seed"] = choices.other_seed
    if choices.other_inputs is not None:
        changed["inputs"] = choices.other_inputs
    other: SubjectChoices = {**run, **changed}  # type: ignore[typeddict-item]  # keys of the same TypedDict
    if choices.streams is not None:
        two = replace(two, program=other_stream_order(two.program, StreamOrder(choices.streams)))
    return _samples(make_subject(two, other, draws=subject.draws), choices.engine, run)


def _samples(subject: Subject, engine: str | None, run: SubjectChoices) -> Iterator[Sample]:
    """Runs a subject in an engine: an emitter's, or the interpreter."""
    if engine in (None, "interpreter"):
        return samples(subject)
    emitter = checked_emitter(str(engine), subject.artifact, run["operators"])
    return engine_samples(subject.artifact, emitter, subject.machine, subject.inputs)


def _unsteady(subject: Subject, mismatch: Mismatch | None, choices: CompareChoices) -> tuple[str, ...]:
    """A line if the first run computes another value when it is repeated."""
    if mismatch is None or choices.first_engine not in (None, "interpreter"):
        return ()
    again = next((s for s in samples(subject) if s.key == mismatch.first.key), None)
    if again is not None and compare_contents(again.content, mismatch.first.content) is not None:
        return (
            f"{mismatch.first.name} is not deterministic: the first run gives other values when it is "
            "repeated",
        )
    if choices.engine not in (None, "interpreter") and _draws(subject, mismatch.first):
        return (
            f"{mismatch.first.name} is of an operator that may draw random numbers, and each engine draws "
            "its own",
        )
    return ()


def _draws(subject: Subject, sample: Sample) -> bool:
    """True if the op that computed a value is random."""
    op = None if sample.function is None else sample.function.body[sample.position]
    info = subject.analyses.extern_info.get(op.target) if isinstance(op, ir.CallExtern) else None
    return info is not None and ir.ExternTag.RANDOM in info.extern.tags


def _with_eager(
    artifact: Artifact, choices: CompareChoices, run: SubjectChoices
) -> tuple[tuple[str, ...], Comparison]:
    eager, subject = eager_subject(artifact, choices.model, choices.frontend, run)
    notes = constants_against_eager(artifact, eager, subject.machine)
    result = compare_with_eager(subject, eager, choices.tolerance)
    return (*notes, *_unsteady(subject, result.mismatch, choices)), result


def eager_subject(
    artifact: Artifact, model: str | None, frontend_name: str, run: SubjectChoices
) -> tuple[EagerRun, Subject]:
    """Returns the model's run without compilation, and the program with the model's example arguments.

    A part of a program has those as constants (`with_model_inputs`).
    """
    eager_frontend = frontend(frontend_name)
    if not isinstance(eager_frontend, EagerFrontend):
        raise DebugError("WIR954", f"frontend {frontend_name!r} cannot run models without compiling them")
    factory, args, kwargs, options = call_factory(_factory(artifact, model))
    subject = make_subject(artifact, run)
    has_inputs = artifact.metadata.get(_INPUTS) == _OF_MODEL
    flat = [] if has_inputs else flat_arguments(artifact, subject.machine, args, kwargs)
    eager = eager_frontend.eager(factory, args, kwargs, **options)
    options_of_run = subject.interpreter.options
    return eager, Subject(artifact, subject.machine, InputChoice(values=flat), options_of_run)


def with_model_inputs(artifact: Artifact) -> Artifact:
    """Marks a part of a program that was cut out of a run with the model's example arguments and takes
    none."""
    return replace(artifact, metadata={**artifact.metadata, _INPUTS: _OF_MODEL})


def _factory(artifact: Artifact, model: str | None) -> str:
    """Names the model's factory: the option, or the one `wir capture` recorded; raises DebugError WIR953."""
    try:
        noted = json.loads(artifact.metadata.get("capture", "{}"))
    except (ValueError, RecursionError):
        noted = None
    spec = model or (noted.get("model") if isinstance(noted, dict) else None)
    if not isinstance(spec, str):
        raise DebugError(
            "WIR953",
            "the artifact does not say what made its model, which eager runs need",
            hint="name it: `--model MODULE:FUNCTION`, as for `wir capture`",
        )
    return spec
