"""The guide's table of Inductor's wrapper lines is complete for the installed torch, and names existing
ops."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
from torch._inductor.codegen import memory_planning, wrapper

from tools.inventory.record import Inventory
from wrapper_ir import ir

PAGE = Path(__file__).resolve().parents[3] / "docs" / "inductor-lines.md"
_ROW = re.compile(r"\| `(\w+)` \| *((?:to )?[\d.]*) *\| ([^|]+) \| *([^|]*) *\|")


class Row(NamedTuple):
    line: str
    since: str
    ops: str
    notes: str


def rows() -> list[Row]:
    matches = (_ROW.fullmatch(text) for text in PAGE.read_text(encoding="utf-8").splitlines())
    return [Row(*(part.strip() for part in match.groups())) for match in matches if match]


def number(version: str) -> list[int]:
    return [int(part) for part in version.split(".")[:2]]


def listed(version: str) -> set[str]:
    """Classes of a version according to the page."""
    return {row.line for row in rows() if has(row, number(version))}


def has(row: Row, version: list[int]) -> bool:
    last = row.since.removeprefix("to ")
    if last != row.since:
        return version <= number(last)
    return not row.since or number(row.since) <= version


def line_classes() -> Iterator[type[wrapper.WrapperLine]]:
    stack: list[type[wrapper.WrapperLine]] = [wrapper.WrapperLine]
    while stack:
        cls = stack.pop()
        if cls.__module__ in (wrapper.__name__, memory_planning.__name__):
            yield cls
        stack.extend(cls.__subclasses__())


def test_the_page_has_the_classes_of_the_installed_torch() -> None:
    assert listed(torch.__version__) == {cls.__name__ for cls in line_classes()}


@pytest.mark.parametrize("version", Inventory.known())
def test_the_versions_on_the_page_agree_with_the_inventories(version: str) -> None:
    """An inventory has every class that defines code; the page also has the bases."""
    generators = Inventory.load(version).sections["generators"]
    owners = {
        group.partition(" > ")[0]
        for file in ("codegen/wrapper.py", "codegen/memory_planning.py")
        for group in generators[file]
    }
    lines = {owner for owner in owners if owner.endswith("Line")}
    assert lines <= listed(version)
    assert listed(version) - lines <= {"WrapperLine", "MemoryPlanningLine", "PoolMemoryPlanningLine"}


def test_rows_name_ops_or_say_why_there_is_none() -> None:
    ops = {cls.__name__ for cls in ir.OPS}
    for row in rows():
        names = set(re.findall(r"`(\w+)`", row.ops))
        assert names <= ops, row
        assert names or (row.ops == "none" and row.notes), row


def test_no_line_is_listed_twice() -> None:
    names = [row.line for row in rows()]
    assert len(names) == len(set(names))
