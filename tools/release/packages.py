"""The packages of this repository, and the files that are published of each."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Package:
    """A folder under `packages/` with its published name and version."""

    folder: Path
    name: str
    version: str

    @property
    def tag(self) -> str:
        """The git tag of this version: each package has separate versions."""
        return f"{self.name}-v{self.version}"

    @property
    def wheels(self) -> str:
        """A pattern for the wheel's file name, which encodes its target."""
        return f"{self.name.replace('-', '_')}-{self.version}-*.whl"

    @property
    def sdist(self) -> str:
        """The source distribution's file name."""
        return f"{self.name.replace('-', '_')}-{self.version}.tar.gz"


def list_packages(root: Path) -> list[Package]:
    """All packages, by name."""
    packages = []
    for file in sorted(root.glob("packages/*/pyproject.toml")):
        project = tomllib.loads(file.read_text(encoding="utf-8"))["project"]
        packages.append(Package(file.parent, project["name"], project["version"]))
    return packages


def build(package: Package, dist: Path) -> list[Path]:
    """The wheel, which is built from the source distribution, and that. Raises CalledProcessError."""
    for old in dist.glob(package.wheels):
        old.unlink()
    run([sys.executable, "-m", "build", "--no-isolation", "--outdir", str(dist), str(package.folder)])
    return [*dist.glob(package.wheels), dist / package.sdist]


def run(command: Sequence[str], **options: object) -> None:
    """Runs a command; its output is shown only if it fails. Raises CalledProcessError."""
    process = subprocess.run(command, capture_output=True, text=True, **options)  # type: ignore[call-overload]
    if process.returncode:
        sys.stderr.write(process.stdout + process.stderr)
        process.check_returncode()
