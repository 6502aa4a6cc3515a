"""The command `wir view`: shows one program, or two side by side, as a page in a browser."""

from __future__ import annotations

import tempfile
import webbrowser
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict, Unpack

import click

from wrapper_ir import ir
from wrapper_ir_tools.cli.files import program_of, read_any
from wrapper_ir_tools.cli.options import hint, hints_of, public_key
from wrapper_ir_tools.cli.output import echo

if TYPE_CHECKING:
    from wrapper_ir_tools.view import ViewOptions


class ViewChoices(TypedDict):
    """Options of `wir view` that select the contents of the page."""

    roots: tuple[Path, ...]
    no_source: bool
    profile: Path | None
    values: Path | None
    names: bool
    hints: tuple[tuple[str, int], ...]


@click.command()
@click.argument("file")
@click.argument("other", required=False)
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the page here; without it, a browser shows it.",
)
@click.option(
    "--source",
    "roots",
    multiple=True,
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help=(
        "A root folder of the model's source files; repeatable. They are also looked for beside FILE, in the "
        "working folder and on Python's path."
    ),
)
@click.option("--no-source", is_flag=True, help="Leave the text of source files out of the page.")
@click.option(
    "--profile",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Times of a run, as `wir profile FILE -o times.json` writes them.",
)
@click.option(
    "--values",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="A folder of tensors that debug values saved.",
)
@click.option("--names", is_flag=True, help="Of two programs: renamed values count as different.")
@hint
@public_key
def view(
    file: str, other: str | None, output: Path | None, public_key: str | None, **choices: Unpack[ViewChoices]
) -> None:
    """Show a program as one standalone page.

    It has the program's text with the model's source beside it, search, folding by module, kernels, data
    flow, memory over time, and the data of a run. With OTHER, it shows both programs side by side, aligned as
    by `wir diff`; times and values are those of FILE.
    """
    from wrapper_ir_tools.view import diff_html, view_html, view_program

    content = read_any(file, public_key)
    options = _options(file, program_of(content), choices)
    data = view_program(content, options)
    if other is None:
        page = view_html(data)
    else:
        second = read_any(other, public_key)
        beside = replace(options, title=Path(other).name, times=(), values=())
        sides = (program_of(content), data), (program_of(second), view_program(second, beside))
        page = diff_html(*sides, names=choices["names"])
    path = output or Path(tempfile.mkdtemp(prefix="wir-view-")) / "page.html"
    path.write_text(page, encoding="utf-8")
    echo(str(path))
    if output is None and not webbrowser.open(path.absolute().as_uri()):
        echo("no browser was found: open the file in one, or name a file by -o", err=True)


def _options(file: str, program: ir.Program, choices: ViewChoices) -> ViewOptions:
    from wrapper_ir_tools.view import SourceOptions, ViewOptions, read_profile, read_saved_values

    profile, values = choices["profile"], choices["values"]
    roots = (*choices["roots"], Path(file).parent)
    return ViewOptions(
        title=Path(file).name,
        hints=hints_of(program, choices["hints"]),
        sources=SourceOptions(roots=roots, read=not choices["no_source"]),
        times=() if profile is None else read_profile(profile),
        values=() if values is None else read_saved_values(values),
    )


COMMANDS: tuple[click.Command, ...] = (view,)
