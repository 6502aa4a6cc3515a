"""Commands about an artifact's kernels: compile, tune."""

from __future__ import annotations

import click

from wrapper_ir_tools.cli.files import read_artifact
from wrapper_ir_tools.cli.options import hint, hints_of, public_key
from wrapper_ir_tools.cli.output import echo


@click.command("compile")
@click.argument("file")
@click.option("-o", "--output", required=True, help="The .wir file to write; may be the same.")
@click.option(
    "--candidates",
    is_flag=True,
    help="Compile every candidate config, so that a device can choose without compiling.",
)
@click.option(
    "--arch",
    "archs",
    multiple=True,
    metavar="ARCH",
    help="An architecture to compile for, such as sm_80, in place of the target's; repeatable.",
)
@public_key
def compile_command(
    file: str, output: str, candidates: bool, archs: tuple[str, ...], public_key: str | None
) -> None:
    """Compile the kernels of an artifact for its target, which need not be present, and store the images in
    it.
    """
    from wrapper_ir import save
    from wrapper_ir_tools.cli.ahead import compiled_artifact

    artifact = compiled_artifact(read_artifact(file, public_key), candidates, archs)
    save(artifact, output)
    size = sum({binary.key: len(binary.image) for binary in artifact.binaries}.values())
    targets = ", ".join(archs or [artifact.program.target.arch])
    echo(f"{output}: {len(artifact.binaries)} kernel(s) for {targets}, {size} bytes")


@click.command()
@click.argument("file")
@click.option("-o", "--output", required=True, help="The .wir file to write.")
@click.option(
    "--measurements",
    "others",
    multiple=True,
    metavar="FILE",
    help="A .wir file whose measured times are used as well; repeatable.",
)
@click.option(
    "--replay", is_flag=True, help="Measure nothing; choose by stored times alone. Needs no device."
)
@click.option("--machine", default="torch", help="The machine that measurements run on.")
@hint
@public_key
def tune(
    file: str,
    output: str,
    others: tuple[str, ...],
    replay: bool,
    machine: str,
    hints: tuple[tuple[str, int], ...],
    public_key: str | None,
) -> None:
    """Measure the configs and kernels that a program leaves open, choose, and store choices and times in
    it."""
    from wrapper_ir import save
    from wrapper_ir import verify as check
    from wrapper_ir_tools.cli.ahead import tuned_artifact

    artifact = read_artifact(file, public_key)
    values = hints_of(artifact.program, hints)
    tuned = tuned_artifact(artifact, None if replay else machine, [read_artifact(r) for r in others], values)
    check(tuned)
    save(tuned, output)
    echo(f"{output}: {len(tuned.program.kernels)} kernels")


COMMANDS: tuple[click.Command, ...] = (compile_command, tune)
