"""Changelogs in the form of Keep a Changelog (https://keepachangelog.com/en/1.1.0/), one for each package."""

from __future__ import annotations

import re
from collections.abc import Iterator

_KINDS = frozenset({"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"})
_VERSION = re.compile(r"## \[(?P<version>Unreleased|\d+\.\d+\.\d+)\](?: - (?P<date>\d{4}-\d\d-\d\d))?")
_HEADING = re.compile(r"^#+ .*$", re.MULTILINE)


def is_dated(text: str, version: str) -> bool:
    """Returns whether the changelog has a section of this version with its release date."""
    return any(m["version"] == version and m["date"] for m in map(_VERSION.fullmatch, text.splitlines()) if m)


def find_deviations(text: str, name: str, version: str) -> Iterator[tuple[int, str]]:
    """Yields (line, message) for errors in a package's changelog: its title, its versions, the kinds of its
    changes.
    """
    versions: list[str] = []
    for heading in _HEADING.finditer(text):
        line, words = text.count("\n", 0, heading.start()) + 1, heading[0]
        if not words.startswith("##"):
            if line != 1 or words != f"# Changelog of {name}":
                yield line, f"the title is not `# Changelog of {name}`"
        elif not words.startswith("###"):
            match = _VERSION.fullmatch(words)
            if match is None or (match["version"] == "Unreleased") is (match["date"] is not None):
                yield line, f"`{words}` is neither `## [Unreleased]` nor `## [1.2.3] - 2026-01-31`"
            elif match["version"] in versions:
                yield line, f"a second section `{match['version']}`"
            else:
                versions.append(match["version"])
        elif words.removeprefix("### ") not in _KINDS:
            yield line, f"`{words}` is none of {', '.join(sorted(_KINDS))}"
    if not {"Unreleased", version} & set(versions[:1]):
        yield 1, f"the first section is neither `[Unreleased]` nor `[{version}]`"
