"""Lines of the model's source, found by the places that ops say they come from."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType

from wrapper_ir.view.model import SourceFile, SourceSegment

__all__ = ["SourceOptions", "read_sources", "split_place"]

_AROUND = 200
"""Lines that are shown before and after each place."""
_MOST_BYTES = 4 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """Where files are looked for: in `roots`, then the working folder, then Python's path; nowhere without `read`.

    A program is data of somebody else, and a page is passed on: only Python files are read.
    """

    roots: tuple[Path, ...] = ()
    read: bool = True

    def folders(self) -> tuple[Path, ...]:
        """All of them, in order."""
        return tuple(dict.fromkeys((*self.roots, Path.cwd(), *map(Path, filter(None, sys.path)))))


def split_place(place: str) -> tuple[str, int]:
    """`model.py:12` as file and line; line 0 where there is none."""
    file, _, line = place.rpartition(":")
    return (file, int(line)) if file and line.isdecimal() else (place, 0)


_NOTHING: Mapping[str, str] = MappingProxyType({})


def read_sources(
    places: Iterable[str], options: SourceOptions, recorded: Mapping[str, str] = _NOTHING
) -> tuple[SourceFile, ...]:
    """The files of these places, by name, with the lines around them. `recorded` is the text of places that was kept when the
    program was captured."""
    wanted: dict[str, set[int]] = {}
    for file, line in map(split_place, places):
        wanted.setdefault(file, set()).add(line)
    folders = options.folders()
    found = []
    for name in sorted(wanted):
        texts = {n: recorded[f"{name}:{n}"] for n in sorted(wanted[name]) if f"{name}:{n}" in recorded}
        found.append(_with_recorded(_read(name, sorted(wanted[name]), folders, options.read), texts))
    return tuple(found)


def _with_recorded(source: SourceFile, texts: Mapping[int, str]) -> SourceFile:
    now = {s.first + n: text.strip() for s in source.segments for n, text in enumerate(s.lines)}
    changed = tuple(n for n, text in texts.items() if source.segments and now.get(n) != text.strip())
    return replace(source, recorded=tuple(texts.items()), changed=changed)


def _read(name: str, lines: Sequence[int], folders: Sequence[Path], read: bool) -> SourceFile:
    if not read:
        return SourceFile(name=name, missing="left out")
    if not name.endswith(".py"):
        return SourceFile(name=name, missing="not a Python file")
    path = next((p for p in _candidates(name, folders) if p.is_file()), None)
    if path is None:
        return SourceFile(name=name, missing="not found on the machine that wrote this page")
    try:
        if path.stat().st_size > _MOST_BYTES:
            return SourceFile(name=name, missing=f"larger than {_MOST_BYTES >> 20} MiB")
        text = path.read_text(encoding="utf-8").split("\n")
    except (OSError, ValueError) as error:
        return SourceFile(name=name, missing=f"cannot be read: {error}")
    return SourceFile(name=name, path=os.fspath(path), segments=tuple(_segments(text, lines)))


def _candidates(name: str, folders: Sequence[Path]) -> Iterator[Path]:
    try:
        if os.path.isabs(name):
            yield Path(name)
        else:
            yield from (folder / name for folder in folders)
    except ValueError:  # a name with a NUL
        return


def _segments(text: Sequence[str], lines: Sequence[int]) -> Iterator[SourceSegment]:
    """What is within `_AROUND` lines of one of the `lines`, in as few pieces as it takes."""
    start = stop = 0
    for line in lines:
        if not 0 < line <= len(text):
            continue
        low, high = max(0, line - 1 - _AROUND), min(len(text), line + _AROUND)
        if low > stop and stop:
            yield SourceSegment(start + 1, tuple(text[start:stop]))
        start, stop = (start if low <= stop and stop else low), high
    if stop:
        yield SourceSegment(start + 1, tuple(text[start:stop]))
