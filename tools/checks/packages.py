"""Checks the required files of every folder under packages/, so that its wheel works alone."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

from tools.checks.finding import Finding
from tools.release.changelog import find_deviations
from tools.release.urls import project_urls, read_repository

_README_LINES = 60  # one screen


def find_incomplete_packages(root: Path) -> Iterator[Finding]:
    """Missing type markers, READMEs and changelogs.

    Licences that differ from the repository's; URLs that do.
    """
    licence = (root / "LICENSE").read_bytes()
    index = (root / "CHANGELOG.md").read_text(encoding="utf-8")
    for folder in sorted(path.parent for path in root.glob("packages/*/pyproject.toml")):
        project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        where = folder.relative_to(root).as_posix()
        if not (folder / "src" / folder.name / "py.typed").is_file():
            yield Finding(f"{where}/src/{folder.name}", 1, "no py.typed")
        # A wheel contains only files of its package's folder, so each package has a copy.
        copy = folder / "LICENSE"
        if not copy.is_file() or copy.read_bytes() != licence:
            yield Finding(f"{where}/LICENSE", 1, "not the same as the repository's LICENSE")
        readme = folder / "README.md"
        if not readme.is_file():
            yield Finding(f"{where}/README.md", 1, "missing")
        elif (lines := readme.read_text(encoding="utf-8").count("\n")) > _README_LINES:
            yield Finding(f"{where}/README.md", 1, f"{lines} lines: more than a screen")
        if project.get("urls", {}) != project_urls(read_repository(root), folder.name):
            yield Finding(
                f"{where}/pyproject.toml", 1, "other URLs than `python -m tools.release publish-at` writes"
            )
        yield from _changelog_findings(folder / "CHANGELOG.md", where, project)
        if f"({where}/CHANGELOG.md)" not in index:
            yield Finding("CHANGELOG.md", 1, f"no link to {where}/CHANGELOG.md")


def _changelog_findings(file: Path, where: str, project: Mapping[str, str]) -> Iterator[Finding]:
    if not file.is_file():
        yield Finding(f"{where}/CHANGELOG.md", 1, "missing")
        return
    text = file.read_text(encoding="utf-8")
    for line, message in find_deviations(text, project["name"], project["version"]):
        yield Finding(f"{where}/CHANGELOG.md", line, message)
