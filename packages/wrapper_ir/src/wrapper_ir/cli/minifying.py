"""What `wir minify` shrinks, and how it shows that."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import click

from wrapper_ir import save
from wrapper_ir.artifact import Artifact
from wrapper_ir.cli.run import checked_emitter
from wrapper_ir.cli.subjects import SubjectChoices, make_subject
from wrapper_ir.debugger.hunt import HuntOptions
from wrapper_ir.debugger.minify import (
    Check,
    command_check,
    engine_check,
    finite_check,
    minify,
    module_text,
)
from wrapper_ir.debugger.subject import Subject

__all__ = ["MinifyChoices", "minified"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MinifyChoices:
    """A command that fails, or an engine that differs, or else a NaN; and where the small program goes."""

    command: str | None
    engine: str | None
    output: str


def minified(artifact: Artifact, choices: MinifyChoices, run: SubjectChoices) -> None:
    """Shrinks, writes, and says how much is left."""
    subject = make_subject(artifact, run, poison=0 if _is_hunt(choices) else None)
    check = _check(subject, artifact, choices, run)
    found = minify(subject, check)
    summary = f"{found.before} ops became {found.after}, after {found.tries} tries: {check.text}"
    if choices.output.endswith(".wir"):
        save(found.artifact, choices.output)
        click.echo(f"{choices.output}: {summary}")
        return
    text = module_text(
        found.artifact,
        check.text,
        machine=run["machine"],
        engine=choices.engine or "",
        command=choices.command or "",
    )
    if choices.output == "-":
        click.echo(text, nl=False)
        click.echo(summary, err=True)
    else:
        Path(choices.output).write_text(text, encoding="utf-8")
        click.echo(f"{choices.output}: {summary}")


def _is_hunt(choices: MinifyChoices) -> bool:
    return choices.command is None and choices.engine is None


def _check(subject: Subject, artifact: Artifact, choices: MinifyChoices, run: SubjectChoices) -> Check:
    interp = subject.interpreter.options
    if choices.command is not None:
        return command_check(choices.command, artifact)
    if choices.engine is not None:
        emitter = checked_emitter(choices.engine, artifact, run["operators"])
        return engine_check(emitter, subject.machine, interp)
    return finite_check(subject.machine, HuntOptions(nan_only=True), interp)
