"""Decisions that must be made before a version can be tagged."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tools.release.changelog import is_dated
from tools.release.packages import Package


def find_obstacles(packages: Sequence[Package], repository: str) -> Iterator[str]:
    """Why these packages cannot be tagged, one sentence for each reason."""
    if not repository:
        yield (
            "no package says where its source is: `[tool.release] repository` in pyproject.toml is empty. "
            "Set it with `python -m tools.release publish-at URL` and commit what that writes."
        )
    for package in packages:
        changelog = package.folder / "CHANGELOG.md"
        if not is_dated(changelog.read_text(encoding="utf-8"), package.version):
            yield (
                f"{changelog} has no section `## [{package.version}] - DATE`: "
                "rename `## [Unreleased]`, with the day of the release."
            )
