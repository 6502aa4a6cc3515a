"""Bytes of a storage under a tensor, and their writes."""

from __future__ import annotations

import pytest

from wrapper_ir.expr import Expr, Int, Sym, as_expr
from wrapper_ir_passes.written_parts import Part, WrittenParts

BYTES = Int(1)
ROWS = Sym("s0")


def _parts(*writes: tuple[Expr | int, Expr | int]) -> WrittenParts:
    parts = WrittenParts()
    for number, (start, size) in enumerate(writes):
        parts.write(Part(as_expr(start), as_expr(size), number))
    return parts


def _seen(parts: WrittenParts, start: Expr | int, size: Expr | int) -> list[tuple[str, str, int]]:
    found = parts.visible(as_expr(start), as_expr(size), None)
    return [(str(part.start), str(part.size), part.number) for part in found]


@pytest.mark.parametrize("unit", [BYTES, ROWS], ids=["bytes", "rows"])
def test_a_window_sees_the_writes_that_it_meets(unit: Expr) -> None:
    parts = _parts(*((8 * k * unit, 8 * unit) for k in (3, 0, 1, 2)))
    assert _seen(parts, 8 * unit, 8 * unit) == [(str(8 * unit), str(8 * unit), 2)]
    assert [number for _, _, number in _seen(parts, 4 * unit, 8 * unit)] == [1, 2]
    assert [part.number for part in parts.all()] == [0, 1, 2, 3]


@pytest.mark.parametrize("unit", [BYTES, ROWS], ids=["bytes", "rows"])
def test_a_write_cuts_the_parts_that_it_meets(unit: Expr) -> None:
    parts = _parts((Int(0), 32 * unit), (8 * unit, 8 * unit))
    assert _seen(parts, 0, 32 * unit) == [
        ("0", str(8 * unit), 0),
        (str(16 * unit), str(16 * unit), 0),
        (str(8 * unit), str(8 * unit), 1),
    ]
    parts.write(Part(Int(0), 32 * unit, 7))
    assert _seen(parts, 0, 32 * unit) == [("0", str(32 * unit), 7)]


def test_windows_of_two_sizes_may_share_bytes() -> None:
    parts = _parts((Int(0), 8 * ROWS), (Int(64), Int(8)))
    assert [number for _, _, number in _seen(parts, 64, 8)] == [0, 1]
    parts.write(Part(Int(0), 8 * ROWS, 5))
    assert [number for _, _, number in _seen(parts, 0, 8 * ROWS)] == [1, 5]


def test_a_size_that_may_be_negative_is_no_place() -> None:
    parts = _parts((Int(0), 8 * ROWS - 8), (4 * ROWS, 4 * ROWS))
    assert [number for _, _, number in _seen(parts, 0, 4 * ROWS)] == [0]


def test_a_write_of_the_same_elements_hides_those_before_it() -> None:
    parts = WrittenParts()
    for number, layout in enumerate(("columns", None, "columns")):
        parts.write(Part(Int(0), Int(32), number, layout))
    assert [part.number for part in parts.visible(Int(0), Int(32), "columns")] == [2]
    assert [part.number for part in parts.visible(Int(0), Int(32), None)] == [1, 2]


def test_parts_beside_each_other_are_all_seen() -> None:
    parts = WrittenParts()
    for number in range(3):
        parts.add(Part(Int(0), Int(32), number))
    assert [number for _, _, number in _seen(parts, 8, 8)] == [0, 1, 2]
    parts.write(Part(Int(8), Int(8), 3))
    assert [number for _, _, number in _seen(parts, 8, 8)] == [3]
    assert len(_seen(parts, 0, 32)) == 7
