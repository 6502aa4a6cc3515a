"""Creates an environment with another torch: `python tools/environment.py FOLDER TORCH`.

It has the requirements of pyproject.toml, with this torch and its Triton, and without those that only the
first environment runs (types, lints, imports). It needs only the standard library.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
import venv
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[1]
_LEFT_OUT = frozenset({"torch", "triton", "mypy", "ruff", "import-linter", "twine"})


def requirements(project: str, torch: str) -> list[str]:
    """Returns the requirements for pip, from the text of the root's pyproject.toml."""
    listed: list[str] = tomllib.loads(project)["tool"]["hatch"]["envs"]["default"]["dependencies"]
    others = (text for text in listed if re.split(r"[^\w.-]", text, maxsplit=1)[0] not in _LEFT_OUT)
    return [f"torch=={torch}", *others]


def main(folder: Path, torch: str) -> None:
    """Creates the environment, or updates it."""
    if not (folder / "bin" / "python").exists():
        venv.create(folder, with_pip=True, clear=True)
    names = requirements((_ROOT / "pyproject.toml").read_text(encoding="utf-8"), torch)
    subprocess.run([folder / "bin" / "python", "-m", "pip", "install", *names], check=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
