"""Commands that look at programs: print, lower, verify, stats, diff."""

from __future__ import annotations

import dataclasses
import json
import sys

import click

from wrapper_ir.errors import VerificationError
from wrapper_ir.support.quoting import printable
from wrapper_ir_tools.cli.files import artifact_of, program_of, read_any, read_program
from wrapper_ir_tools.cli.options import as_json, hint, hints_of, public_key
from wrapper_ir_tools.cli.output import echo


@click.command("print")
@click.argument("file")
@click.option("--json", "as_json", is_flag=True, help="The JSON form instead of text.")
@click.option("--kernels/--no-kernels", default=True, help="With or without kernel sources.")
@click.option(
    "--head", type=click.IntRange(min=0), default=0, metavar="N", help="The first N lines only (0: all)."
)
@public_key
def print_command(file: str, as_json: bool, kernels: bool, head: int, public_key: str | None) -> None:
    """Print a program in text or JSON form."""
    from wrapper_ir import print_program, to_json

    program = read_program(file, public_key)
    if not kernels:
        program = dataclasses.replace(program, kernels=())
    text = to_json(program) if as_json else print_program(program)
    lines = text.splitlines()
    echo("\n".join(lines[:head] if head else lines))


@click.command()
@click.argument("file")
@click.option(
    "--persistent-buffers", is_flag=True, help="Keep the memory of intermediate results from call to call."
)
@public_key
def lower(file: str, persistent_buffers: bool, public_key: str | None) -> None:
    """Print a program's plan: the steps that emitters translate, with every decision made."""
    from wrapper_ir import verify as check
    from wrapper_ir_lowering import LoweringOptions, print_plan
    from wrapper_ir_lowering import lower as lower_artifact

    artifact = artifact_of(read_any(file, public_key))
    check(artifact)
    echo(
        print_plan(lower_artifact(artifact, LoweringOptions(persistent_buffers=persistent_buffers))), nl=False
    )


@click.command()
@click.argument("file")
@public_key
@as_json
def verify(file: str, public_key: str | None, as_json: bool) -> None:
    """Check a program, and the calling convention of an artifact.

    Every finding is printed; the exit status is 1 if there is one. Also printed: the number of bounds to
    check at run time (`wir opt --pass insert-checks` shows them).
    """
    from wrapper_ir import verify as check
    from wrapper_ir.analysis.memo import Analyses
    from wrapper_ir.verifier.insert_checks import missing_checks

    subject = read_any(file, public_key)
    program = program_of(subject)
    analyses = Analyses(program)
    try:
        check(subject, analyses=analyses)
    except VerificationError as error:
        if as_json:
            findings = [dataclasses.asdict(d) for d in error.diagnostics]
            echo(json.dumps({"valid": False, "findings": findings}, indent=2, default=str))
        else:
            for diagnostic in error.diagnostics:
                echo(str(diagnostic))
            echo(f"{len(error.diagnostics)} finding(s)")
        sys.exit(1)
    ops = sum(len(f.body) for f in program.functions)
    unproved = len(missing_checks(program, analyses=analyses))
    if as_json:
        signed = public_key is not None
        echo(json.dumps({"valid": True, "ops": ops, "run_time_checks": unproved, "signed": signed}, indent=2))
        return
    if public_key is not None:
        echo(f"signed with the private key of {public_key}")
    echo(f"ok: {ops} ops" + (f", {unproved} check(s) at run time" if unproved else ""))


@click.command()
@click.argument("file")
@hint
@public_key
@as_json
def stats(file: str, hints: tuple[tuple[str, int], ...], public_key: str | None, as_json: bool) -> None:
    """Count ops and kernels, and the bytes allocated, held and live at the peak, with the bound of plans.

    Also printed: how `lower-collectives` lowers each collective, and why; the buffers of collectives that are
    registered with their group, and why others are not.
    """
    from wrapper_ir.analysis.memo import Analyses
    from wrapper_ir_passes.analysis.stats import program_stats
    from wrapper_ir_passes.collectives.lower_collectives import LowerCollectives
    from wrapper_ir_passes.collectives.register_buffers import RegisterBuffers
    from wrapper_ir_passes.collectives.registration_candidates import registration_totals

    program = read_program(file, public_key)
    statistics = program_stats(program, hints_of(program, hints))
    analyses = Analyses(program)
    choices = [str(choice) for choice in LowerCollectives().choices(analyses)]
    buffers = RegisterBuffers().choices(analyses)
    totals = registration_totals(buffers)
    if as_json:
        echo(
            json.dumps(
                {
                    **dataclasses.asdict(statistics),
                    "collectives": choices,
                    "registered": totals,
                    "buffers": [*map(str, buffers)],
                },
                indent=2,
            )
        )
        return
    for name, value in statistics.rows():
        echo(f"{name:<30}{value}")
    for choice in choices:
        echo(printable(f"{'collective':<30}{choice}"))
    if buffers:
        echo(f"{'registered':<30}{totals}")
    for found_buffers in buffers:
        echo(printable(f"{'buffers':<30}{found_buffers}"))


@click.command()
@click.argument("old")
@click.argument("new")
@click.option("--names", is_flag=True, help="Renamed values count as different.")
@public_key
def diff(old: str, new: str, names: bool, public_key: str | None) -> None:
    """Compare two programs by structure; exit status 1 if they differ. A key applies to both."""
    from wrapper_ir_tools.diff import diff_programs

    text = diff_programs(read_program(old, public_key), read_program(new, public_key), names=names)
    if text:
        echo(text)
        sys.exit(1)


COMMANDS: tuple[click.Command, ...] = (print_command, lower, verify, stats, diff)
