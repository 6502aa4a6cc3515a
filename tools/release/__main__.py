"""Builds, checks and tags releases.

    python -m tools.release check            build the site, wheels and source distributions into dist/, check their metadata,
                                             install them in fresh environments, run the README's first example there
    python -m tools.release publish-at URL   write the repository's URL into every package's metadata and README
    python -m tools.release tag              the same as `check`, then a git tag for each package whose version has none

Uploading is left to the maintainer: `twine upload dist/*`.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import click

from tools.release.install import check_installed
from tools.release.packages import Package, build, list_packages, run
from tools.release.readiness import find_obstacles
from tools.release.urls import publish_at, read_repository

_ROOT = Path(__file__).parents[2]


@click.group(help=__doc__)
def main() -> None:
    """The command group; see the module's docstring."""


@main.command()
def check() -> None:
    """Build and check everything; nothing is tagged."""
    _build_and_check(list_packages(_ROOT))


@main.command("publish-at")
@click.argument("url")
def set_repository(url: str) -> None:
    """Write the repository's URL into the setting, every package's metadata, and their READMEs' links."""
    try:
        publish_at(_ROOT, url)
    except ValueError as error:
        raise click.UsageError(str(error)) from None


@main.command()
def tag() -> None:
    """Check, then tag each package whose version has no tag yet."""
    if _git("status", "--porcelain"):
        raise click.UsageError("the working tree has changes: commit them first")
    tags = set(_git("tag").split())
    packages = list_packages(_ROOT)
    new = [package for package in packages if package.tag not in tags]
    if not new:
        raise click.UsageError("every package's version has a tag already: raise a version first")
    if obstacles := [*find_obstacles(new, read_repository(_ROOT))]:
        raise click.UsageError("\n".join(["nothing is tagged:", *obstacles]))
    _build_and_check(packages)
    for package in new:
        _git("tag", "-a", package.tag, "-m", f"{package.name} {package.version}")
        click.echo(f"tagged {package.tag}")


def _build_and_check(packages: list[Package]) -> None:
    run(["make", "site"], cwd=_ROOT)
    click.echo("built the site")
    dist = _ROOT / "dist"
    files = [file for package in packages for file in build(package, dist)]
    click.echo(f"built {len(files)} files in {dist}")
    run([sys.executable, "-m", "twine", "check", "--strict", *map(str, files)])
    for kind in (".whl", ".tar.gz"):
        check_installed(_ROOT, [f for f in files if f.name.endswith(kind)])
        click.echo(f"the README's first example runs from *{kind}")


def _git(*args: str) -> str:
    return subprocess.run(["git", *args], cwd=_ROOT, check=True, capture_output=True, text=True).stdout


if __name__ == "__main__":
    main()
