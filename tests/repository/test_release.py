"""Inputs of the release tool: packages, file names, and the README's first example."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from tools.release.changelog import find_deviations, is_dated
from tools.release.install import first_example
from tools.release.packages import Package, list_packages
from tools.release.readiness import find_obstacles
from tools.release.urls import project_urls, publish_at, read_repository

ROOT = Path(__file__).parents[2]


def test_every_package_is_released() -> None:
    packages = {p.name: p for p in list_packages(ROOT)}
    assert {p.folder.name for p in packages.values()} == {p.name for p in (ROOT / "packages").iterdir()}
    core = packages["wrapper-ir"]
    assert core.tag == f"wrapper-ir-v{core.version}"
    assert core.wheels == f"wrapper_ir-{core.version}-*.whl"
    assert core.sdist == f"wrapper_ir-{core.version}.tar.gz"


def test_the_extra_for_models_brings_every_other_package() -> None:
    core = tomllib.loads((ROOT / "packages" / "wrapper_ir" / "pyproject.toml").read_text(encoding="utf-8"))
    brought = {need.partition(">")[0] for need in core["project"]["optional-dependencies"]["inductor"]}
    assert brought == {p.name for p in list_packages(ROOT)} - {"wrapper-ir"}
    assert core["project"]["dependencies"] == []


def test_the_first_example_is_a_script() -> None:
    text = first_example(ROOT)
    compile(text, "example.py", "exec")
    assert "py_wrapper.compile(art)" in text


def test_a_readme_without_an_example_is_refused(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("# Nothing\n", encoding="utf-8")
    with pytest.raises(ValueError, match="no Python block"):
        first_example(tmp_path)


CHANGELOG = """\
# Changelog of p-q

## [Unreleased]

### Added

- More.

## [0.1.0] - 2026-01-31

### Fixed

- Less.
"""


def test_a_changelog_in_form() -> None:
    assert [*find_deviations(CHANGELOG, "p-q", "0.2.0")] == []
    assert [*find_deviations(CHANGELOG[CHANGELOG.index("## [0") :], "p-q", "0.1.0")] == []
    assert is_dated(CHANGELOG, "0.1.0")
    assert not is_dated(CHANGELOG, "0.2.0")


@pytest.mark.parametrize(
    ("was", "becomes", "line"),
    [
        ("# Changelog of p-q", "# Changes", 1),
        ("## [Unreleased]", "## Unreleased", 3),
        ("## [Unreleased]", "## [Unreleased] - 2026-02-01", 3),
        ("## [0.1.0] - 2026-01-31", "## [0.1.0]", 9),
        ("## [0.1.0] - 2026-01-31", "## [Unreleased]", 9),
        ("### Fixed", "### Repaired", 11),
    ],
)
def test_a_changelog_out_of_form(was: str, becomes: str, line: int) -> None:
    assert line in [at for at, _ in find_deviations(CHANGELOG.replace(was, becomes), "p-q", "0.1.0")]


def test_a_changelog_that_ends_before_the_version() -> None:
    old = CHANGELOG.replace("## [Unreleased]", "## [0.1.1] - 2026-02-01")
    [(line, message)] = find_deviations(old, "p-q", "0.2.0")
    assert (line, "[0.2.0]" in message) == (1, True)


def test_nothing_is_tagged_without_a_repository_and_a_date(tmp_path: Path) -> None:
    package = Package(tmp_path, "p-q", "0.1.0")
    (tmp_path / "CHANGELOG.md").write_text(CHANGELOG)
    assert [*find_obstacles([package], "https://example.com/p/q")] == []
    [obstacle] = find_obstacles([package], "")
    assert "publish-at" in obstacle
    (tmp_path / "CHANGELOG.md").write_text(CHANGELOG.replace("0.1.0", "0.0.9"))
    [obstacle] = find_obstacles([package], "https://example.com/p/q")
    assert "[0.1.0]" in obstacle


def copy_of_a_package(root: Path) -> Path:
    """Copies the repository's settings and one package."""
    (root / "pyproject.toml").write_text((ROOT / "pyproject.toml").read_text("utf-8"))
    folder = root / "packages" / "py_wrapper"
    folder.mkdir(parents=True)
    for name in ("pyproject.toml", "README.md"):
        (folder / name).write_text((ROOT / "packages" / "py_wrapper" / name).read_text("utf-8"))
    return folder


def test_the_repository_is_written_into_every_package(tmp_path: Path) -> None:
    folder = copy_of_a_package(tmp_path)
    for url in ("https://example.com/first/place", "https://example.com/p/q"):
        publish_at(tmp_path, url)
        assert read_repository(tmp_path) == url
        project = tomllib.loads((folder / "pyproject.toml").read_text("utf-8"))
        assert project["project"]["urls"] == project_urls(url, "py_wrapper")
        assert project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"] == ["src/py_wrapper"]
    readme = (folder / "README.md").read_text("utf-8")
    assert "](https://example.com/first/place/blob/main/docs/trust.md)" in readme
    assert "](../" not in readme


@pytest.mark.parametrize("url", ["http://example.com/p/q", "https://example.com", "https://example.com/p/q/"])
def test_what_is_not_the_url_of_a_repository_is_refused(url: str, tmp_path: Path) -> None:
    copy_of_a_package(tmp_path)
    with pytest.raises(ValueError, match="https URL of a repository"):
        publish_at(tmp_path, url)
    assert read_repository(tmp_path) == ""
