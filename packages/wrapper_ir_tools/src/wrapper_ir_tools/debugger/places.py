"""Where an op stands, for reports: the op with its neighbours, its source lines and nodes."""

from __future__ import annotations

from collections.abc import Sequence

from wrapper_ir.ir.program import Function
from wrapper_ir.text import print_excerpt

_SHOWN = 3


def source_line(function: Function, position: int) -> str:
    """`from file:line, module, nodes a, b`, of each kind the first three; empty where nothing is known."""
    prov = function.body[position].prov
    parts = [_some("", prov.locations), _some("module ", prov.modules), _some("nodes ", prov.nodes)]
    found = "; ".join(part for part in parts if part)
    return f"from {found}" if found else ""


def _some(word: str, items: Sequence[str]) -> str:
    more = f" and {len(items) - _SHOWN} more" if len(items) > _SHOWN else ""
    return f"{word}{', '.join(items[:_SHOWN])}{more}" if items else ""


def place_lines(function: Function, position: int) -> list[str]:
    """The op in its surroundings, long lines cut, and where it comes from."""
    lines = [
        line if len(line) <= 160 else f"{line[:157]}..."
        for line in print_excerpt(function, position).splitlines()
    ]
    source = source_line(function, position)
    return [*lines, *([source] if source else [])]
