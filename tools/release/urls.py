"""The repository's URL, in one setting: `[tool.release] repository` of the root `pyproject.toml`.

A package's metadata contains absolute URLs, and relative links of its README do not work outside the
repository. `python -m tools.release publish-at URL` writes both from the setting. While it is empty there are
none: an invented URL could belong to others.
"""

from __future__ import annotations

import posixpath
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path

_SETTING = re.compile(r'(?m)^(\[tool\.release\]\n(?:#.*\n)*repository = )"[^"\n]*"$')
_URLS = re.compile(r"(?m)^\[project\.urls\]\n(?:[^\[\n].*\n)*\n")
_FIRST_TOOL = re.compile(r"(?m)^\[tool\.")
_RELATIVE = re.compile(r"\]\((?P<path>\.\./[^)#\s]+)(?P<anchor>#[^)\s]*)?\)")


def read_repository(root: Path) -> str:
    """The URL of the repository, or "" while it is not published."""
    settings = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    url = settings["tool"]["release"]["repository"]
    assert isinstance(url, str)
    return url


def project_urls(repository: str, folder: str) -> Mapping[str, str]:
    """`[project.urls]` of the package in `packages/<folder>`, by label.

    Empty for a repository without a URL.
    """
    if not repository:
        return {}
    here = f"{repository}/blob/main"
    return {
        "Homepage": repository,
        "Documentation": f"{here}/docs/index.md",
        "Changelog": f"{here}/packages/{folder}/CHANGELOG.md",
        "Issues": f"{repository}/issues",
    }


def publish_at(root: Path, repository: str) -> None:
    """Writes the setting, `[project.urls]` of each package, and absolute links into the packages' READMEs.

    Raises ValueError where the URL is not one of https, or the setting is not there.
    """
    if not re.fullmatch(r"https://[\w.-]+(/[\w.-]+)+", repository):
        raise ValueError(f"{repository!r} is not the https URL of a repository, without a slash at its end")
    _rewrite(root / "pyproject.toml", _SETTING, rf'\g<1>"{repository}"')
    for file in sorted(root.glob("packages/*/pyproject.toml")):
        urls = project_urls(repository, file.parent.name)
        section = "[project.urls]\n" + "".join(f'{label} = "{url}"\n' for label, url in urls.items()) + "\n"
        text = _URLS.sub("", file.read_text(encoding="utf-8"))
        first = _FIRST_TOOL.search(text)
        at = first.start() if first else len(text)
        file.write_text(text[:at] + section + text[at:], encoding="utf-8")
        readme = file.with_name("README.md")
        text = readme.read_text(encoding="utf-8")
        readme.write_text(_with_absolute_links(text, repository, file.parent.name), encoding="utf-8")


def _rewrite(file: Path, pattern: re.Pattern[str], replacement: str) -> None:
    text, count = pattern.subn(replacement, file.read_text(encoding="utf-8"))
    if count != 1:
        raise ValueError(f"{file} has no `[tool.release]` with `repository`")
    file.write_text(text, encoding="utf-8")


def _with_absolute_links(text: str, repository: str, folder: str) -> str:
    def absolute(link: re.Match[str]) -> str:
        path = posixpath.normpath(f"packages/{folder}/{link['path']}")
        return f"]({repository}/blob/main/{path}{link['anchor'] or ''})"

    return _RELATIVE.sub(absolute, text)
