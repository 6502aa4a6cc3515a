"""`wir`: look at, check, compare, transform, emit and run wrapper programs.

Every command takes a `.wir` artifact; those that need no constants take text or JSON as well, `-` being standard
input. Exit status: 0 done, 1 the answer is no (invalid, different), 2 the command could not be carried out.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, ParamSpec, Unpack

import click

from wrapper_ir.artifact import Artifact
from wrapper_ir.cli.files import read_any, read_artifact, read_program
from wrapper_ir.errors import VerificationError, WirError

if TYPE_CHECKING:
    from wrapper_ir.cli.run import RunChoices

__all__ = ["main"]

P = ParamSpec("P")


def _reports_errors(command: Callable[P, None]) -> Callable[P, None]:
    @wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            command(*args, **kwargs)
        except WirError as error:
            click.echo(f"wir: {error}", err=True)
            sys.exit(2)

    return run


_allow_operator = click.option(
    "--allow-operator",
    "operators",
    multiple=True,
    metavar="NAME",
    help="An operator that may reach files or code of the process, such as aten::from_file; repeatable.",
)
_public_key = click.option(
    "--public-key", metavar="PEM", help="Refuse a file that is not signed with the key to this one."
)


@click.group(context_settings={"help_option_names": ["-h", "--help"]}, help=__doc__)
@click.version_option(package_name="wrapper-ir", prog_name="wir")
def main() -> None:
    """The command group; see the module's docstring."""


@main.command("print")
@click.argument("file")
@click.option("--json", "as_json", is_flag=True, help="The JSON form instead of text.")
@click.option("--kernels/--no-kernels", default=True, help="With or without kernel sources.")
@click.option("--head", type=int, default=0, metavar="N", help="The first N lines only.")
@_reports_errors
def print_command(file: str, as_json: bool, kernels: bool, head: int) -> None:
    """Print a program in text or JSON form."""
    from wrapper_ir import print_program, to_json

    program = read_program(file)
    if not kernels:
        program = dataclasses.replace(program, kernels=())
    text = to_json(program) if as_json else print_program(program)
    lines = text.splitlines()
    click.echo("\n".join(lines[:head] if head else lines))


@main.command()
@click.argument("file")
@_public_key
@_reports_errors
def verify(file: str, public_key: str | None) -> None:
    """Check a program, and the calling convention of an artifact; prints every finding, exit status 1 if there is one.
    With --public-key, check who signed the file first. Says how many bounds are left to check at run time, which
    `wir opt --pass insert-checks` shows."""
    from wrapper_ir import verify as check
    from wrapper_ir.passes.insert_checks import missing_checks

    found = read_any(file) if public_key is None else read_artifact(file, public_key)
    program = found.program if isinstance(found, Artifact) else found
    try:
        check(found)
    except VerificationError as error:
        for diagnostic in error.diagnostics:
            click.echo(str(diagnostic))
        click.echo(f"{len(error.diagnostics)} finding(s)")
        sys.exit(1)
    if public_key is not None:
        click.echo(f"signed with the key to {public_key}")
    open_bounds = len(missing_checks(program))
    left = f", {open_bounds} check(s) at run time" if open_bounds else ""
    click.echo(f"ok: {sum(len(f.body) for f in program.functions)} ops{left}")


@main.command()
@click.argument("file")
@click.option("--hint", "hints", multiple=True, metavar="SYMBOL=N", help="Value of a symbol for sizes.")
@_reports_errors
def stats(file: str, hints: tuple[str, ...]) -> None:
    """Count ops and kernels; bytes allocated, peak live bytes, and the lower bound of any plan."""
    from wrapper_ir.analysis import program_stats

    table = dict(_hint(h) for h in hints)
    for name, value in program_stats(read_program(file), table).rows():
        click.echo(f"{name:<28}{value}")


def _hint(text: str) -> tuple[str, int]:
    name, _, value = text.partition("=")
    if not value.lstrip("-").isdigit():
        raise click.BadParameter(f"expected SYMBOL=N, got {text!r}", param_hint="--hint")
    return name, int(value)


@main.command()
@click.argument("old")
@click.argument("new")
@click.option("--names", is_flag=True, help="Renamed values count as different.")
@_reports_errors
def diff(old: str, new: str, names: bool) -> None:
    """Compare two programs by structure; exit status 1 where they differ."""
    from wrapper_ir.diff import diff_programs

    text = diff_programs(read_program(old), read_program(new), names=names)
    if text:
        click.echo(text)
        sys.exit(1)


@main.command()
@click.argument("file")
@click.option(
    "--pass", "passes", multiple=True, metavar="SPEC", help="A pass, such as `derive-frees`; repeatable."
)
@click.option("-o", "--output", default="-", help="A .wir file, or text (default: to standard output).")
@click.option("--list", "list_passes", is_flag=True, help="List all passes and their options.")
@_reports_errors
def opt(file: str, passes: tuple[str, ...], output: str, list_passes: bool) -> None:
    """Run passes; the program is verified before and after each."""
    from wrapper_ir import print_program, save
    from wrapper_ir.passes import describe_passes, run_pipeline

    if list_passes:
        click.echo(describe_passes())
        return
    program = run_pipeline(read_program(file), ",".join(passes))
    if output.endswith(".wir"):
        save(dataclasses.replace(read_artifact(file), program=program), output)
    elif output == "-":
        click.echo(print_program(program), nl=False)
    else:
        Path(output).write_text(print_program(program), encoding="utf-8")


@main.command()
@click.argument("file")
@click.option("--key", required=True, metavar="PEM", help="A private Ed25519 key, as openssl writes it.")
@click.option("-o", "--output", help="The .wir file to write (default: in its place).")
@click.option("--password", is_flag=True, help="Ask for the key's password.")
@_reports_errors
def sign(file: str, key: str, output: str | None, password: bool) -> None:
    """Sign an artifact with a key of your own; `wir verify FILE --public-key PEM` checks it."""
    from wrapper_ir import sign as write_signed

    asked: str | None = click.prompt("Password", hide_input=True) if password else None
    write_signed(file, key, output, password=None if asked is None else asked.encode())
    click.echo(f"{output or file}: signed")


@main.command()
@click.argument("file")
@click.option("--to", "target", required=True, metavar="NAME", help="An installed emitter, such as `python`.")
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True, help="Folder for the files.")
@_allow_operator
@_public_key
@_reports_errors
def emit(file: str, target: str, output: Path, operators: tuple[str, ...], public_key: str | None) -> None:
    """Emit a program to files with an installed emitter."""
    from wrapper_ir import verify as check
    from wrapper_ir.cli.run import checked_emitter

    artifact = read_artifact(file, public_key)
    check(artifact)
    for path in checked_emitter(target, artifact, operators).write(artifact, output):
        click.echo(str(path))


@main.command("compile")
@click.argument("file")
@click.option("-o", "--output", required=True, help="The .wir file to write; may be the same.")
@click.option("--candidates", is_flag=True, help="With every candidate config, for tuning later.")
@click.option(
    "--arch",
    "archs",
    multiple=True,
    metavar="ARCH",
    help="Instead of the target's, such as sm_80; repeatable.",
)
@_public_key
@_reports_errors
def compile_command(
    file: str, output: str, candidates: bool, archs: tuple[str, ...], public_key: str | None
) -> None:
    """Compile the kernels of an artifact for its target, which need not be here, and keep them in it."""
    from wrapper_ir import save
    from wrapper_ir.cli.ahead import compiled_artifact

    artifact = compiled_artifact(read_artifact(file, public_key), candidates, archs)
    save(artifact, output)
    size = sum({binary.key: len(binary.image) for binary in artifact.binaries}.values())
    shown = ", ".join(archs or [artifact.program.target.arch])
    click.echo(f"{output}: {len(artifact.binaries)} kernel(s) for {shown}, {size} bytes")


@main.command()
@click.argument("model", metavar="MODULE:FUNCTION")
@click.option("-o", "--output", required=True, help="The .wir file to write.")
@click.option("--frontend", "name", default="inductor", help="An installed frontend.")
@_reports_errors
def capture(model: str, output: str, name: str) -> None:
    """Capture a model. MODULE:FUNCTION names a Python function that returns (model, args), (model, args, kwargs) or
    (model, args, kwargs, options), options being further keyword arguments of the frontend (`dynamic_shapes`)."""
    from wrapper_ir import save
    from wrapper_ir.cli.capture import call_factory
    from wrapper_ir.registry import frontend

    captured, args, kwargs, options = call_factory(model)
    artifact = frontend(name).capture(captured, args, kwargs, **options)
    save(artifact, output)
    click.echo(f"{output}: {sum(len(f.body) for f in artifact.program.functions)} ops")


@main.command()
@click.argument("file")
@click.option("--with", "engine", default="interpreter", help="`interpreter` or an installed emitter.")
@click.option("--machine", default="torch", help="The interpreter's machine.")
@click.option("--repeat", default=1, help="Calls to make.")
@click.option("--seed", default=0, help="Seed of the random inputs.")
@_allow_operator
@click.option("--hint", "hints", multiple=True, metavar="SYMBOL=N", help="Value of a symbol for input sizes.")
@_public_key
@_reports_errors
def run(file: str, hints: tuple[str, ...], public_key: str | None, **choices: Unpack[RunChoices]) -> None:
    """Run a program on random inputs made from its signature, and summarise the results."""
    from wrapper_ir.cli.run import run_artifact

    artifact = read_artifact(file, public_key)
    for line in run_artifact(artifact, dict(_hint(h) for h in hints), choices):
        click.echo(line)


@main.command()
@click.argument("file")
@click.option("-o", "--output", required=True, help="The .wir file to write.")
@click.option(
    "--record",
    "records",
    multiple=True,
    metavar="FILE",
    help="A .wir file whose times count too; repeatable.",
)
@click.option("--replay", is_flag=True, help="Measure nothing: choose by records alone, without a device.")
@click.option("--machine", default="torch", help="The machine that measurements run on.")
@click.option("--hint", "hints", multiple=True, metavar="SYMBOL=N", help="Value of a symbol for sizes.")
@_public_key
@_reports_errors
def tune(
    file: str,
    output: str,
    records: tuple[str, ...],
    replay: bool,
    machine: str,
    hints: tuple[str, ...],
    public_key: str | None,
) -> None:
    """Choose the configs and kernels that a program leaves open, and write the choices and all times into it."""
    from wrapper_ir import save
    from wrapper_ir import verify as check
    from wrapper_ir.cli.ahead import tuned_artifact

    artifact = read_artifact(file, public_key)
    given = dict(_hint(h) for h in hints)
    tuned = tuned_artifact(artifact, None if replay else machine, [read_artifact(r) for r in records], given)
    check(tuned)
    save(tuned, output)
    click.echo(f"{output}: {len(tuned.program.kernels)} kernels")
