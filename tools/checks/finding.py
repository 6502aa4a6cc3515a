"""Findings of checks, and the files that checks read."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Source:
    """A text file of the repository. `path` is relative to the root, with forward slashes."""

    path: str
    text: str

    @property
    def is_python(self) -> bool:
        """Returns whether the file is Python source."""
        return self.path.endswith(".py")


@dataclass(frozen=True, slots=True)
class Finding:
    """One broken rule. Prints as `path:line: message`, which editors can follow."""

    path: str
    line: int
    message: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.message}"


Check = Callable[[Source], Iterator[Finding]]


def repository_files(root: Path) -> Iterator[Source]:
    """Every text file that git tracks or would add. Files that aren't UTF-8 are data and are passed over."""
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=root,
        check=True,
        capture_output=True,
        text=True,
    )
    for name in sorted(set(listing.stdout.split("\0")) - {""}):
        path = root / name
        if path.is_symlink() or not path.is_file():
            continue
        try:
            yield Source(name, path.read_text(encoding="utf-8"))
        except UnicodeDecodeError:
            continue
