"""The implementation of `wir minify`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from wrapper_ir import save
from wrapper_ir.artifact import Artifact
from wrapper_ir_tools.cli.comparing import eager_subject, with_model_inputs
from wrapper_ir_tools.cli.output import echo
from wrapper_ir_tools.cli.run import checked_emitter
from wrapper_ir_tools.cli.subjects import SubjectChoices, make_subject
from wrapper_ir_tools.debugger import minify
from wrapper_ir_tools.debugger.hunt import HuntOptions
from wrapper_ir_tools.debugger.subject import Subject


@dataclass(frozen=True, slots=True, kw_only=True)
class MinifyChoices:
    """The failure to preserve, and the output.

    The failure is a command's, an engine's or a `second` program's difference, a difference from the model in
    eager mode, or else a NaN. `model` and `frontend` are for eager mode.
    """

    command: str | None
    engine: str | None
    second: Artifact | None
    model: str | None
    frontend: str
    output: str


def minified(artifact: Artifact, choices: MinifyChoices, run: SubjectChoices) -> None:
    """Shrinks the program, writes the result, and prints its size."""
    machine = run["machine"]
    if choices.engine == "eager":
        eager, subject = eager_subject(artifact, choices.model, choices.frontend, run)
        reference = minify.EagerReference(subject, eager)
        check = minify.eager_check(reference, subject.machine, subject.interpreter.options)
        result = minify.minify(subject, check)
        result = replace(result, artifact=with_model_inputs(result.artifact))
        small = Subject(result.artifact, subject.machine, options=subject.interpreter.options)
        _write(
            result,
            check,
            choices.output,
            minify.ModuleOptions(machine=machine, model=reference.mismatch(small)),
        )
        return
    # unwritten memory is the same in each run of a hunt, and in both programs
    poison = 0 if choices.command is None and choices.engine is None else None
    subject = make_subject(artifact, run, poison=poison)
    second = None
    if choices.second is not None:
        second = make_subject(choices.second, run, poison=poison, draws=subject.draws)
    check = _check(subject, artifact, choices, run)
    result = minify.minify(subject, check, second)
    options = minify.ModuleOptions(
        machine=machine, engine=choices.engine or "", command=choices.command or "", second=result.second
    )
    _write(result, check, choices.output, options)


def _write(result: minify.Minified, check: minify.Check, output: str, options: minify.ModuleOptions) -> None:
    """Writes the program as a file, or as a test."""
    lines = [
        f"{result.before} ops became {result.after}, after {result.tries} tries: {check.text}",
        *result.notes,
    ]
    if output.endswith(".wir"):
        save(result.artifact, output)
        if result.second is not None:
            other = f"{output.removesuffix('.wir')}.second.wir"
            save(result.second, other)
            lines.append(f"the second program is {other}")
    else:
        text = minify.module_text(result.artifact, check.text, options)
        if output == "-":
            echo(text, nl=False)
        else:
            Path(output).write_text(text, encoding="utf-8")
    for number, line in enumerate(lines):
        echo(line if output == "-" or number else f"{output}: {line}", err=output == "-")


def _check(subject: Subject, artifact: Artifact, choices: MinifyChoices, run: SubjectChoices) -> minify.Check:
    interp = subject.interpreter.options
    if choices.command is not None:
        return minify.command_check(choices.command, artifact)
    if choices.second is not None:
        return minify.program_check(subject.machine, interp)
    if choices.engine is not None:
        emitter = checked_emitter(choices.engine, artifact, run["operators"])
        return minify.engine_check(emitter, subject.machine, interp)
    return minify.finite_check(subject.machine, HuntOptions(nan_only=True), interp)
