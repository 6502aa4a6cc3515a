"""The text of a model's source line, where the file is on this machine."""

from __future__ import annotations

import linecache
import sys
from collections.abc import Sequence
from pathlib import Path

__all__ = ["source_text"]


def source_text(place: str, folders: Sequence[Path] = ()) -> str | None:
    """The line at `file:line`, stripped; None where there is no such Python file in `folders`, the working folder or on Python's
    path: programs name any file, and only Python's are read."""
    name, _, number = place.rpartition(":")
    if not name.endswith(".py") or not number.isdecimal():
        return None
    for folder in (*folders, Path.cwd(), *map(Path, filter(None, sys.path))):
        path = folder / name
        if path.is_file():
            return linecache.getline(str(path), int(number)).strip() or None
    return None
