"""Builds, checks and tags releases.

    python -m tools.release check     build wheels and source distributions into dist/, check their metadata, install
                                      them in fresh environments, run the README's first example there
    python -m tools.release tag       the same, then a git tag for each package whose version has none

Uploading is left to the maintainer: `twine upload dist/*`.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import click

from tools.release.install import check_installed
from tools.release.packages import Package, build, list_packages, run

_ROOT = Path(__file__).parents[2]


@click.group(help=__doc__)
def main() -> None:
    """The command group; see the module's docstring."""


@main.command()
def check() -> None:
    """Build and check everything; nothing is tagged."""
    _checked()


@main.command()
def tag() -> None:
    """Check, then tag each package whose version has no tag yet."""
    if _git("status", "--porcelain"):
        raise click.UsageError("the working tree has changes: commit them first")
    known = set(_git("tag").split())
    for package in _checked():
        if package.tag not in known:
            _git("tag", "-a", package.tag, "-m", f"{package.name} {package.version}")
            click.echo(f"tagged {package.tag}")


def _checked() -> list[Package]:
    dist = _ROOT / "dist"
    packages = list_packages(_ROOT)
    files = [file for package in packages for file in build(package, dist)]
    click.echo(f"built {len(files)} files in {dist}")
    run([sys.executable, "-m", "twine", "check", "--strict", *map(str, files)])
    for kind in (".whl", ".tar.gz"):
        check_installed(_ROOT, [f for f in files if f.name.endswith(kind)])
        click.echo(f"the README's first example runs from *{kind}")
    return packages


def _git(*args: str) -> str:
    return subprocess.run(["git", *args], cwd=_ROOT, check=True, capture_output=True, text=True).stdout


main()
