"""Shared parts of benchmarks besides timing: their command line, tables, and pages in `docs/benchmarks/`."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from pathlib import Path

from tabulate import tabulate

_FOLDER = Path(__file__).parents[2] / "docs" / "benchmarks"


def command_line(description: str | None) -> argparse.ArgumentParser:
    """A parser with `--write` and `--page`; the benchmark's docstring is its help."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--write", action="store_true", help="write the page in docs/benchmarks")
    parser.add_argument(
        "--page", metavar="NAME", help="the page's name, for another torch's beside the first"
    )
    return parser


def table(headers: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Formats a Markdown table; numbers are not rounded."""
    return tabulate(list(rows), headers, tablefmt="github", disable_numparse=True)


def page(title: str, command: str, *sections: tuple[str, str]) -> str:
    """Formats a page with the command that wrote it.

    Sections are (heading, text), and empty ones are skipped.
    """
    parts = [f"# {title}", f"Written by `{command}`; not edited by hand."]
    parts += [f"## {heading}\n\n{text.strip()}" for heading, text in sections if text.strip()]
    return "\n\n".join(parts) + "\n"


def section_of(name: str, heading: str) -> str:
    """Returns the text of a section of a page, or '' if the page or the section does not exist."""
    path = _FOLDER / f"{name}.md"
    parts = path.read_text(encoding="utf-8").split("\n## ") if path.is_file() else []
    return dict(part.split("\n\n", 1) for part in parts[1:]).get(heading, "").strip()


def publish(name: str, text: str, options: argparse.Namespace) -> None:
    """Prints a page, and writes it to `docs/benchmarks/<name>.md` if `options`, of `command_line`, request
    it.
    """
    print(text)
    if options.write:
        path = _FOLDER / f"{options.page or name}.md"
        path.write_text(text, encoding="utf-8")
        print(path)
