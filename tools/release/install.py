"""Installs built files in an otherwise empty environment, and runs the README's first example there."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from tools.release.packages import run

_AFTER = """
torch.testing.assert_close(f(example_input), model(example_input))
"""


def first_example(root: Path) -> str:
    """The first Python block of the README, as a script that compares its result with eager's."""
    match = re.search(r"```python\n(.*?)```", (root / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    if match is None:
        raise ValueError("README.md has no Python block")
    return match[1] + _AFTER


def check_installed(root: Path, files: Sequence[Path], extra: str = "inductor") -> None:
    """Creates an environment, installs the files with their requirements, and runs the example.

    Raises CalledProcessError.
    """
    with TemporaryDirectory() as scratch:
        folder = Path(scratch)
        run([sys.executable, "-m", "venv", str(folder / "env")])
        python = str(folder / "env" / "bin" / "python")
        [core] = (f for f in files if f.name.startswith("wrapper_ir-"))
        others = [str(f) for f in files if f is not core]
        run([python, "-m", "pip", "install", "--quiet", f"{core}[{extra}]", *others])
        run([python, "-m", "pip", "check"])
        (folder / "example.py").write_text(first_example(root), encoding="utf-8")
        run([python, "-W", "ignore", "example.py"], cwd=folder)
        run([str(folder / "env" / "bin" / "wir"), "verify", "model.wir"], cwd=folder)
