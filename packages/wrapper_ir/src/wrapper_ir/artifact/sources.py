"""Source lines of the model: those in an artifact, and those in files of this machine.

Ops have their source as `file:line`. Programs are untrusted, so only Python files are read, and no text is
executed.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from wrapper_ir.artifact import Artifact

SOURCES = "sources.json"
"""The extension of an artifact with source lines: an object from `file:line` to text."""

_MOST_BYTES = 4 << 20


@dataclass(frozen=True, slots=True)
class SourceText:
    """The lines of a file, or the reason why it cannot be read (`missing`)."""

    path: str = ""
    lines: tuple[str, ...] = ()
    missing: str = ""


def split_place(place: str) -> tuple[str, int]:
    """Splits `model.py:12` into file and line; the line is 0 if it is missing."""
    file, _, line = place.rpartition(":")
    return (file, int(line)) if file and line.isdecimal() else (place, 0)


def source_texts(artifact: Artifact) -> Mapping[str, str]:
    """Returns the source lines of an artifact by `file:line`; malformed entries are skipped."""
    try:
        document = json.loads(artifact.extensions.get(SOURCES, "{}"))
    except (ValueError, RecursionError):
        return {}
    pairs = document.items() if isinstance(document, dict) else ()
    return {place: text for place, text in pairs if isinstance(text, str)}


def source_folders(first: Sequence[Path] = ()) -> tuple[Path, ...]:
    """Returns the folders to search for sources: `first`, the working folder, Python's path."""
    return tuple(dict.fromkeys((*first, Path.cwd(), *map(Path, filter(None, sys.path)))))


def read_source(name: str, folders: Sequence[Path]) -> SourceText:
    """Reads a Python file by its name in ops."""
    if not name.endswith(".py"):
        return SourceText(missing="not a Python file")
    path = next((p for p in _candidates(name, folders) if p.is_file()), None)
    if path is None:
        return SourceText(missing="not found in any source folder")
    try:
        if path.stat().st_size > _MOST_BYTES:
            return SourceText(missing=f"larger than {_MOST_BYTES >> 20} MiB")
        return SourceText(os.fspath(path), tuple(path.read_text(encoding="utf-8").split("\n")))
    except (OSError, ValueError) as error:
        return SourceText(missing=f"cannot be read: {error}")


def _candidates(name: str, folders: Sequence[Path]) -> Iterator[Path]:
    try:
        if os.path.isabs(name):
            yield Path(name)
        else:
            yield from (folder / name for folder in folders)
    except ValueError:  # a name with a NUL
        return


def line_at(place: str, folders: Sequence[Path]) -> str | None:
    """Returns the line at `file:line` in a file of this machine, stripped; None if it is missing or blank."""
    name, number = split_place(place)
    lines = read_source(name, folders).lines
    return lines[number - 1].strip() or None if 0 < number <= len(lines) else None
