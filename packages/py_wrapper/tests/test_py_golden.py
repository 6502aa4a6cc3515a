"""The text of emitted modules, compared with golden files (`--update-golden` rewrites them)."""

from __future__ import annotations

from pathlib import Path

import pytest
from packages.py_wrapper.tests.py_case import artifact_of
from packages.py_wrapper.tests.py_golden import without_version
from packages.py_wrapper.tests.py_programs import CASES

import py_wrapper
from py_wrapper import PyOptions

GOLDEN = Path(__file__).parent / "golden"
SHOWN = ("mlp", "storages", "cond", "while_2", "while_2_stacked", "checks", "mutation", "odd_names")
CASE_BY_NAME = {case.name: case for case in CASES}


@pytest.mark.parametrize("name", SHOWN)
def test_golden(name: str, update_golden: bool) -> None:
    case = CASE_BY_NAME[name]
    text = without_version(py_wrapper.emit(artifact_of(case), PyOptions(name=name)).source)
    path = GOLDEN / f"{name}.py.txt"
    if update_golden:
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


def test_poison_is_written_only_when_asked_for() -> None:
    artifact = artifact_of(CASE_BY_NAME["mlp"])
    assert "poisoned" not in py_wrapper.emit(artifact).source
    text = py_wrapper.emit(artifact, PyOptions(poison=0x7B)).source
    assert "buf0 = poisoned(empty_cpu((s0, 4), (4, 1), torch.float32))" in text
    assert "    poisoned(buf0)\n    del buf0\n" in text


def test_comments_can_be_left_out() -> None:
    artifact = artifact_of(CASE_BY_NAME["mlp"])
    assert "# mm: mm (model.py:10 in layers.0)" in py_wrapper.emit(artifact).source
    assert "model.py" not in py_wrapper.emit(artifact, PyOptions(comments=False)).source


@pytest.mark.parametrize("case", CASES, ids=[c.name for c in CASES])
def test_emission_is_deterministic_and_lines_are_short(case: object) -> None:
    assert isinstance(case, type(CASES[0]))
    first, second = (py_wrapper.emit(artifact_of(case)) for _ in range(2))
    assert first == second
    assert max(len(line) for line in first.source.splitlines()) <= 130
