"""The command `wir profile`."""

from __future__ import annotations

from pathlib import Path
from typing import TypedDict, Unpack

import click

from wrapper_ir_tools.cli.files import read_artifact
from wrapper_ir_tools.cli.options import allow_operator, as_json, hint, hints_of, public_key
from wrapper_ir_tools.cli.output import echo


class _Choices(TypedDict):
    machine: str
    calls: int
    seed: int
    head: int
    output: Path | None
    trace: Path | None
    metrics: Path | None
    operators: tuple[str, ...]


@click.command()
@click.argument("file")
@click.option("--machine", default="torch", help="An installed machine, which runs the program.")
@click.option("--calls", type=click.IntRange(min=1), default=10, help="How many calls are measured.")
@click.option("--seed", default=0, help="Seed of the random inputs.")
@click.option("--head", type=click.IntRange(min=1), default=30, help="How many ops the table shows.")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    help="Write the profile as JSON, for `wir view --profile`.",
)
@click.option(
    "--trace",
    type=click.Path(path_type=Path),
    help="Write a flame chart: a trace for Perfetto or chrome://tracing.",
)
@click.option(
    "--metrics",
    type=click.Path(path_type=Path),
    help="A folder for tables of metrics (.csv) as Inductor writes them.",
)
@allow_operator
@hint
@public_key
@as_json
def profile(
    file: str,
    hints: tuple[tuple[str, int], ...],
    public_key: str | None,
    as_json: bool,
    **choices: Unpack[_Choices],
) -> None:
    """Measure each op of a program on random inputs: time on CPU and GPU, bytes, and share of the copy
    bandwidth.
    """
    from wrapper_ir.operators.policy import OperatorPolicy
    from wrapper_ir.plugins.registry import machine as find_machine
    from wrapper_ir_tools import profile as measuring

    artifact = read_artifact(file, public_key)
    options = measuring.ProfileOptions(
        calls=choices["calls"],
        seed=choices["seed"],
        symbols=hints_of(artifact.program, hints),
        operators=OperatorPolicy(allow=choices["operators"]),
    )
    measurement = measuring.profile_artifact(artifact, find_machine(choices["machine"]), options)
    if (output := choices["output"]) is not None:
        output.write_text(measuring.profile_json(measurement), encoding="utf-8")
    if (trace := choices["trace"]) is not None:
        trace.write_text(measuring.profile_trace(measurement), encoding="utf-8")
    if (folder := choices["metrics"]) is not None:
        measuring.write_metric_tables(artifact.program, measurement, folder, Path(file).name)
    echo(
        measuring.profile_json(measurement)
        if as_json
        else measuring.profile_text(measurement, choices["head"]),
        nl=False,
    )


COMMANDS: tuple[click.Command, ...] = (profile,)
