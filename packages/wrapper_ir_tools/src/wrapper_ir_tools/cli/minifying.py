"""What `wir minify` shrinks, and how it shows that."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from wrapper_ir import save
from wrapper_ir.artifact import Artifact
from wrapper_ir_tools.cli.comparing import eager_subject, with_model_inputs
from wrapper_ir_tools.cli.output import echo
from wrapper_ir_tools.cli.run import checked_emitter
from wrapper_ir_tools.cli.subjects import SubjectChoices, make_subject
from wrapper_ir_tools.debugger.hunt import HuntOptions
from wrapper_ir_tools.debugger.minify import (
    Check,
    EagerReference,
    Minified,
    ModuleOptions,
    command_check,
    eager_check,
    engine_check,
    finite_check,
    minify,
    module_text,
    program_check,
)
from wrapper_ir_tools.debugger.subject import Subject


@dataclass(frozen=True, slots=True, kw_only=True)
class MinifyChoices:
    """A command that fails, an engine or a `second` program that differs, the model in eager mode, or else a NaN; and where the
    small program goes. `model` and `frontend` are for eager mode."""

    command: str | None
    engine: str | None
    second: Artifact | None
    model: str | None
    frontend: str
    output: str


def minified(artifact: Artifact, choices: MinifyChoices, run: SubjectChoices) -> None:
    """Shrinks, writes, and says how much is left."""
    machine = run["machine"]
    if choices.engine == "eager":
        eager, subject = eager_subject(artifact, choices.model, choices.frontend, run)
        reference = EagerReference(subject, eager)
        check = eager_check(reference, subject.machine, subject.interpreter.options)
        found = minify(subject, check)
        found = replace(found, artifact=with_model_inputs(found.artifact))
        small = Subject(found.artifact, subject.machine, options=subject.interpreter.options)
        _write(found, check, choices.output, ModuleOptions(machine=machine, model=reference.mismatch(small)))
        return
    # memory that nothing has written is the same in each run of a hunt, and in both programs
    poison = 0 if choices.command is None and choices.engine is None else None
    subject = make_subject(artifact, run, poison=poison)
    second = None
    if choices.second is not None:
        second = make_subject(choices.second, run, poison=poison, draws=subject.draws)
    check = _check(subject, artifact, choices, run)
    found = minify(subject, check, second)
    options = ModuleOptions(
        machine=machine,
        engine=choices.engine or "",
        command=choices.command or "",
        second=found.second,
    )
    _write(found, check, choices.output, options)


def _write(found: Minified, check: Check, output: str, options: ModuleOptions) -> None:
    """The program as a file, or as a test."""
    lines = [
        f"{found.before} ops became {found.after}, after {found.tries} tries: {check.text}",
        *found.notes,
    ]
    if output.endswith(".wir"):
        save(found.artifact, output)
        if found.second is not None:
            other = f"{output.removesuffix('.wir')}.second.wir"
            save(found.second, other)
            lines.append(f"the second program is {other}")
    else:
        text = module_text(found.artifact, check.text, options)
        if output == "-":
            echo(text, nl=False)
        else:
            Path(output).write_text(text, encoding="utf-8")
    for number, line in enumerate(lines):
        echo(line if output == "-" or number else f"{output}: {line}", err=output == "-")


def _check(subject: Subject, artifact: Artifact, choices: MinifyChoices, run: SubjectChoices) -> Check:
    interp = subject.interpreter.options
    if choices.command is not None:
        return command_check(choices.command, artifact)
    if choices.second is not None:
        return program_check(subject.machine, interp)
    if choices.engine is not None:
        emitter = checked_emitter(choices.engine, artifact, run["operators"])
        return engine_check(emitter, subject.machine, interp)
    return finite_check(subject.machine, HuntOptions(nan_only=True), interp)
