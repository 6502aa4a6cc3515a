"""Commands that run programs under control: step, hunt, compare, replay, minify."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from typing import Any, Unpack

import click

from wrapper_ir.support.files import read_text
from wrapper_ir.support.quoting import printable
from wrapper_ir_tools.cli.files import read_artifact
from wrapper_ir_tools.cli.output import echo
from wrapper_ir_tools.cli.subjects import SubjectChoices, make_subject, subject_options


@click.command()
@click.argument("file")
@click.option("--nan", "nan_only", is_flag=True, help="Infinities are fine: masks are made of them.")
@click.option("--ignore", multiple=True, metavar="GLOB", help="Values that are not checked; repeatable.")
@click.option("--every-op", is_flag=True, help="Check after each op instead of bisecting.")
@click.option("--states", type=click.IntRange(min=1), default=8, help="How many states are kept at once.")
@subject_options
def hunt(
    file: str,
    nan_only: bool,
    ignore: tuple[str, ...],
    every_op: bool,
    states: int,
    **choices: Unpack[SubjectChoices],
) -> None:
    """Name the first op whose output has a NaN or an infinity; inputs and constants are checked first.

    Exit status 1 if there is one.
    """
    from wrapper_ir_tools.debugger.hunt import HuntOptions
    from wrapper_ir_tools.debugger.hunt import hunt as find
    from wrapper_ir_tools.debugger.kept_states import StateLimits
    from wrapper_ir_tools.debugger.reports import bad_lines

    subject = make_subject(read_artifact(file, choices["public_key"]), choices, poison=0)
    limits = StateLimits(count=states)
    options = HuntOptions(nan_only=nan_only, ignore=ignore, every_op=every_op, limits=limits)
    finding = find(subject, options)
    if finding is None:
        echo(
            "nothing is bad: every tensor that the program computes is finite"
            + (" or infinite" if nan_only else "")
        )
        return
    for line in bad_lines(finding):
        echo(printable(line))
    sys.exit(1)


@click.command()
@click.argument("first")
@click.argument("second", required=False)
@click.option(
    "--with",
    "engine",
    help="What runs the second program: `eager`, or an installed emitter; else the interpreter.",
)
@click.option(
    "--first-with", "first_engine", metavar="NAME", help="What runs the first program; else the interpreter."
)
@click.option(
    "--model", metavar="MODULE:FUNCTION", help="For `eager`: what makes the model, as `wir capture` takes it."
)
@click.option("--frontend", default="inductor", help="For `eager`: an installed frontend.")
@click.option(
    "--streams",
    type=click.Choice(["late", "early"]),
    help="Run the second program's streams in another legal order.",
)
@click.option("--other-seed", type=int, help="Seed of the second run's random inputs.")
@click.option(
    "--other-inputs",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="The second run's inputs.",
)
@click.option("--rtol", type=float, help="Relative tolerance in place of those by element type.")
@click.option("--atol", type=float, help="Absolute tolerance, 0 where only `--rtol` is given.")
@subject_options
def compare(first: str, second: str | None, **options: Any) -> None:
    """Run two programs, or one program twice, and name the first op that differs; exit status 1 if one does.

    With one FILE, `--with` names the engine to compare with the interpreter, or with the engine of
    `--first-with`. Without it, FILE runs twice, which shows ops that are not deterministic. `--other-seed`
    and `--other-inputs` give the second run other inputs.
    """
    from wrapper_ir_tools.cli.comparing import CompareChoices, compared
    from wrapper_ir_tools.debugger.reports import comparison_lines

    key = options["public_key"]
    one = read_artifact(first, key)
    two = one if second is None else read_artifact(second, key)
    names = {f.name for f in dataclasses.fields(CompareChoices)}
    choices = CompareChoices(**{name: value for name, value in options.items() if name in names})
    run: Any = {name: value for name, value in options.items() if name not in names}
    notes, comparison = compared(one, two, choices, run)
    for line in (*notes, *comparison_lines(comparison)):
        echo(printable(line))
    if notes or not comparison.agree:
        sys.exit(1)


@click.command()
@click.argument("file")
@click.option(
    "-c", "--command", "commands", multiple=True, metavar="COMMAND", help="Run this first; repeatable."
)
@click.option(
    "-x",
    "--script",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="Run the commands in a file first.",
)
@click.option("--batch", is_flag=True, help="End after `-c` and `-x`; exit status 1 where a command failed.")
@click.option(
    "--states", type=click.IntRange(min=1), default=8, help="How many states are kept to go back to."
)
@click.option("--poison", type=click.IntRange(0, 255), help="Fill memory that holds nothing with this byte.")
@subject_options
def step(
    file: str,
    commands: tuple[str, ...],
    script: Path | None,
    batch: bool,
    states: int,
    poison: int | None,
    **choices: Unpack[SubjectChoices],
) -> None:
    """Step through a program, op by op: breakpoints, values, changes, and back. `help` lists the commands.

    Commands come from `-c` and `-x`, then from standard input.
    """
    from wrapper_ir_tools.cli.stepping import run_console
    from wrapper_ir_tools.debugger.console import Console
    from wrapper_ir_tools.debugger.controller import Controller
    from wrapper_ir_tools.debugger.kept_states import StateLimits

    subject = make_subject(read_artifact(file, choices["public_key"]), choices, poison=poison)
    controller = Controller(subject, StateLimits(count=states))
    console = Console(controller, sys.stdout, (Path(file).parent,))
    lines = [*commands, *(read_text(script).splitlines() if script else ())]
    run_console(console, lines, batch=batch)
    if batch and console.failed:
        sys.exit(1)


@click.command()
@click.argument("file")
@click.option(
    "--ops",
    required=True,
    metavar="RANGE",
    help="`12`, `12..20`, `@body:0..3`, or `@body:0..3#2` for the second call.",
)
@click.option("-o", "--output", required=True, help="The .wir file to write.")
@subject_options
def replay(file: str, ops: str, output: str, **choices: Unpack[SubjectChoices]) -> None:
    """Write some ops alone, with their inputs in a run as constants: another machine can run the file."""
    from wrapper_ir import save
    from wrapper_ir_tools.debugger.replay import parse_range, replay_piece

    piece = replay_piece(make_subject(read_artifact(file, choices["public_key"]), choices), parse_range(ops))
    save(piece, output)
    stored = sum(data.nbytes for data in piece.constants.values())
    echo(f"{output}: {len(piece.program.main.body)} ops, {stored} bytes of constants")


@click.command()
@click.argument("file")
@click.option(
    "--check",
    metavar="COMMAND",
    help="A shell command that fails on the file, `{}` in it, with the same status and code.",
)
@click.option(
    "--compare",
    "compared",
    metavar="NAME",
    help=(
        "What differs from the interpreter: an installed emitter, or `eager`; or a second .wir file, "
        "which shrinks alike."
    ),
)
@click.option(
    "--model", metavar="MODULE:FUNCTION", help="For `eager`: what makes the model, as `wir capture` takes it."
)
@click.option("--frontend", default="inductor", help="For `eager`: an installed frontend.")
@click.option("--nan", is_flag=True, help="An op makes a NaN from finite values.")
@click.option(
    "-o", "--output", default="-", help="A .wir file, or a Python test; `-`: the test to standard output."
)
@subject_options
def minify(file: str, check: str | None, compared: str | None, nan: bool, **options: Any) -> None:
    """Shrink a failing program to a few ops and their inputs, and print it as a test."""
    from wrapper_ir_tools.cli.minifying import MinifyChoices, minified

    if sum((check is not None, compared is not None, nan)) != 1:
        raise click.UsageError("give one of --check, --compare and --nan")
    own = {name: options.pop(name) for name in ("model", "frontend", "output")}
    run: Any = options
    is_file = compared is not None and compared.endswith(".wir")
    second = read_artifact(compared, run["public_key"]) if compared and is_file else None
    engine = None if is_file else compared
    artifact = read_artifact(file, run["public_key"])
    minified(artifact, MinifyChoices(command=check, engine=engine, second=second, **own), run)


COMMANDS: tuple[click.Command, ...] = (step, hunt, compare, replay, minify)
