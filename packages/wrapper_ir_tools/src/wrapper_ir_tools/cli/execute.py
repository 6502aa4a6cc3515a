"""Commands that run models and programs: capture, run."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING, Unpack

import click

from wrapper_ir.support.quoting import printable
from wrapper_ir_tools.cli.files import read_artifact
from wrapper_ir_tools.cli.options import allow_operator, as_json, hint, hints_of, public_key
from wrapper_ir_tools.cli.output import echo

if TYPE_CHECKING:
    from wrapper_ir_tools.cli.run import RunChoices


@click.command()
@click.argument("model", metavar="MODULE:FUNCTION")
@click.option("-o", "--output", required=True, help="The .wir file to write.")
@click.option("--frontend", "name", default="inductor", help="An installed frontend.")
def capture(model: str, output: str, name: str) -> None:
    """Capture a model.

    MODULE:FUNCTION names a Python function that returns (model, args), (model, args, kwargs) or (model, args,
    kwargs, options); options are further keyword arguments of the frontend (`dynamic_shapes`).
    """
    from wrapper_ir import save
    from wrapper_ir.plugins.registry import frontend
    from wrapper_ir_tools.cli.capture import call_factory

    captured, args, kwargs, options = call_factory(model)
    artifact = frontend(name).capture(captured, args, kwargs, **options)
    noted = {**artifact.metadata, "capture": json.dumps({"frontend": name, "model": model})}
    save(dataclasses.replace(artifact, metadata=noted), output)
    echo(f"{output}: {sum(len(f.body) for f in artifact.program.functions)} ops")


@click.command()
@click.argument("file")
@click.option(
    "--with", "engine", default="interpreter", help="What runs it: `interpreter`, or an installed emitter."
)
@click.option("--machine", default="torch", help="An installed machine, for the interpreter and for inputs.")
@click.option("--repeat", type=click.IntRange(min=1), default=1, help="How many times to call it.")
@click.option("--seed", default=0, help="Seed of the random inputs.")
@allow_operator
@hint
@public_key
@as_json
def run(
    file: str,
    hints: tuple[tuple[str, int], ...],
    public_key: str | None,
    as_json: bool,
    **choices: Unpack[RunChoices],
) -> None:
    """Run a program on random inputs that match its signature, and summarise the results."""
    from wrapper_ir_tools.cli.run import run_artifact

    artifact = read_artifact(file, public_key)
    report = run_artifact(artifact, hints_of(artifact.program, hints), choices)
    if as_json:
        echo(json.dumps(report.to_json(), indent=2, default=str))
        return
    for line in report.lines():
        echo(printable(line))


COMMANDS: tuple[click.Command, ...] = (capture, run)
