"""Commands that transform or emit a program: opt, sign, emit, build."""

from __future__ import annotations

from pathlib import Path

import click

from wrapper_ir_tools.cli.files import read_artifact, read_program
from wrapper_ir_tools.cli.options import allow_operator, public_key
from wrapper_ir_tools.cli.output import echo


def _list_passes(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    if value:
        from wrapper_ir_passes import describe_passes

        echo(describe_passes())
        ctx.exit()


@click.command()
@click.argument("file")
@click.option(
    "--pass", "passes", multiple=True, metavar="SPEC", help="A pass, such as `derive-frees`; repeatable."
)
@click.option("-o", "--output", default="-", help="A .wir file, or a text file; `-` is standard output.")
@click.option(
    "--list",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_list_passes,
    help="List all passes and their options.",
)
@public_key
def opt(file: str, passes: tuple[str, ...], output: str, public_key: str | None) -> None:
    """Run passes; the program is verified before and after each."""
    from wrapper_ir import print_program, save
    from wrapper_ir_passes import run_on_artifact, run_pipeline

    if output.endswith(".wir"):
        save(run_on_artifact(read_artifact(file, public_key), ",".join(passes)), output)
        return
    program = run_pipeline(read_program(file, public_key), ",".join(passes))
    if output == "-":
        echo(print_program(program), nl=False)
    else:
        Path(output).write_text(print_program(program), encoding="utf-8")


@click.command()
@click.argument("file")
@click.option(
    "--key", required=True, metavar="PEM", help="An Ed25519 private key in PEM form, as openssl writes it."
)
@click.option("-o", "--output", help="The .wir file to write; without it, FILE itself.")
@click.option("--password", is_flag=True, help="Ask for the key's password.")
def sign(file: str, key: str, output: str | None, password: bool) -> None:
    """Sign an artifact with your own key; `wir verify FILE --public-key PEM` checks it."""
    from wrapper_ir import sign as write_signed

    secret: str | None = click.prompt("Password", hide_input=True) if password else None
    write_signed(file, key, output, password=None if secret is None else secret.encode())
    echo(f"{output or file}: signed")


@click.command()
@click.argument("file")
@click.option("--to", "target", required=True, metavar="NAME", help="An installed emitter, such as `python`.")
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True, help="Folder for the files.")
@allow_operator
@public_key
def emit(file: str, target: str, output: Path, operators: tuple[str, ...], public_key: str | None) -> None:
    """Emit a program to files with an installed emitter."""
    from wrapper_ir import verify as check
    from wrapper_ir_tools.cli.run import checked_emitter

    artifact = read_artifact(file, public_key)
    check(artifact)
    for path in checked_emitter(target, artifact, operators).write(artifact, output):
        echo(str(path))


@click.command()
@click.argument("file")
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True, help="The file to build.")
@click.option(
    "--to", "target", default="cpp", show_default=True, metavar="NAME", help="An installed emitter."
)
@click.option(
    "--runtime", help="`native`: a library that needs no torch; `torch`: for AOTInductor's runners."
)
@click.option("--threads", help="Inside a call of a native library: `openmp` or `none`.")
@click.option(
    "--weights", help="`inside` the library, `beside` it, or the name of a file that libraries share."
)
@public_key
def build(
    file: str,
    output: Path,
    target: str,
    runtime: str | None,
    threads: str | None,
    weights: str | None,
    public_key: str | None,
) -> None:
    """Build a library from an artifact, which runs without this package."""
    from wrapper_ir import verify as check
    from wrapper_ir.plugins.protocols import BuildingEmitter
    from wrapper_ir.plugins.registry import emitter

    artifact = read_artifact(file, public_key)
    check(artifact)
    engine = emitter(target)
    if not isinstance(engine, BuildingEmitter):
        raise click.BadParameter(f"the emitter {target!r} builds no files", param_hint="'--to'")
    settings = {"runtime": runtime, "threads": threads, "weights": weights}
    echo(str(engine.build_file(artifact, output, {n: v for n, v in settings.items() if v is not None})))


COMMANDS: tuple[click.Command, ...] = (opt, sign, emit, build)
