"""Finds lines of the model's source by the source locations of ops."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType

from wrapper_ir.artifact.sources import read_source, source_folders, split_place
from wrapper_ir_tools.view.model import SourceFile, SourceSegment

_AROUND = 200
"""Number of lines before and after each location."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """Folders to search: `roots`, then those of `source_folders`; none unless `read`."""

    roots: tuple[Path, ...] = ()
    read: bool = True


_NOTHING: Mapping[str, str] = MappingProxyType({})


def read_sources(
    places: Iterable[str], options: SourceOptions, recorded: Mapping[str, str] = _NOTHING
) -> tuple[SourceFile, ...]:
    """Reads the files of these locations, by name, with the lines around them.

    `recorded` has the text of locations that was saved at capture.
    """
    numbers: dict[str, set[int]] = {}
    for file, line in map(split_place, places):
        numbers.setdefault(file, set()).add(line)
    folders = source_folders(options.roots)
    files = []
    for name in sorted(numbers):
        texts = {n: recorded[f"{name}:{n}"] for n in sorted(numbers[name]) if f"{name}:{n}" in recorded}
        files.append(_with_recorded(_read(name, sorted(numbers[name]), folders, options.read), texts))
    return tuple(files)


def _with_recorded(source: SourceFile, texts: Mapping[int, str]) -> SourceFile:
    now = {s.first + n: text.strip() for s in source.segments for n, text in enumerate(s.lines)}
    changed = tuple(n for n, text in texts.items() if source.segments and now.get(n) != text.strip())
    return replace(source, recorded=tuple(texts.items()), changed=changed)


def _read(name: str, lines: Sequence[int], folders: Sequence[Path], read: bool) -> SourceFile:
    if not read:
        return SourceFile(name=name, missing="left out")
    text = read_source(name, folders)
    return SourceFile(
        name=name, path=text.path, missing=text.missing, segments=tuple(_segments(text.lines, lines))
    )


def _segments(text: Sequence[str], lines: Sequence[int]) -> Iterator[SourceSegment]:
    """Yields the text within `_AROUND` lines of `lines`, in as few segments as possible."""
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
