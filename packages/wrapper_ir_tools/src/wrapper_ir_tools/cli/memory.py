"""The command `wir memory`: reports the memory of a program, or places the buffers of a table."""

from __future__ import annotations

import json
from pathlib import Path

import click

from wrapper_ir.support.files import read_text
from wrapper_ir_tools.cli.files import read_program
from wrapper_ir_tools.cli.options import as_json, hint, hints_of, public_key
from wrapper_ir_tools.cli.output import echo


@click.command()
@click.argument("file")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    help="Write the report as .html (a page), .png (a picture), .csv (a table of buffers) or .json.",
)
@hint
@public_key
@as_json
def memory(
    file: str, output: Path | None, hints: tuple[tuple[str, int], ...], public_key: str | None, as_json: bool
) -> None:
    """Report the memory of a program: the peak, the storages behind it, and what each would save.

    FILE may be a table of buffers (.csv with id,lower,upper,size, MiniMalloc's form). Then their bound and
    the height of each algorithm are printed, and -o writes the table with the best placement.
    """
    from wrapper_ir_tools.report import memory_report, report_json, report_text, write_report

    if file.endswith(".csv"):
        _place(Path(file), output, as_json)
        return
    program = read_program(file, public_key)
    report = memory_report(program, hints_of(program, hints))
    if output is not None:
        write_report(report, output)
    if as_json:
        echo(report_json(report), nl=False)
    elif output is None:
        echo(report_text(report), nl=False)
    else:
        echo(str(output))


_SEARCHED, _STEPS = 500, 5_000
"""The largest table to search, in buffers, and the number of search steps: some seconds."""


def _place(table: Path, output: Path | None, as_json: bool) -> None:
    from wrapper_ir_passes.planner import PACKERS, exact, height, pack, peak_bytes, read_csv, write_csv

    buffers = read_csv(read_text(table))
    places = {a.value: packer(buffers) for a, packer in PACKERS.items()}
    places["best"] = pack(buffers)
    if len(buffers) <= _SEARCHED:
        places["best"] = exact(buffers, places["best"], _STEPS).places
    heights = {name: height(buffers, result) for name, result in places.items()}
    bound = peak_bytes(buffers)
    if output is not None:
        output.write_text(write_csv(buffers, places["best"]), encoding="utf-8")
    if as_json:
        echo(json.dumps({"buffers": len(buffers), "bound": bound, "heights": heights}, indent=2))
        return
    echo(f"{'buffers':<12}{len(buffers)}\n{'bound':<12}{bound}")
    for name, result in heights.items():
        echo(f"{name:<12}{result}" + (f" ({result / bound:.3f} of the bound)" if bound else ""))


COMMANDS: tuple[click.Command, ...] = (memory,)
