"""Requirements of an environment with another torch."""

from __future__ import annotations

from pathlib import Path

from tools.environment import requirements

PROJECT = Path(__file__).resolve().parents[2] / "pyproject.toml"


def test_it_is_the_first_one_with_another_torch() -> None:
    found = requirements(PROJECT.read_text(encoding="utf-8"), "2.15.0")
    assert found[0] == "torch==2.15.0"
    names = [text.split("=")[0].split(">")[0] for text in found]
    assert len(names) == len(set(names))
    assert {"pytest", "pytest-xdist", "hypothesis", "transformers", "editables", "hatchling"} <= set(names)
    assert not {"triton", "mypy", "ruff", "import-linter"} & set(names)
