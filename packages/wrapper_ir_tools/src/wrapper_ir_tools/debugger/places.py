"""Describes the position of an op for reports: its neighbours, source lines and nodes."""

from __future__ import annotations

from collections.abc import Sequence

from wrapper_ir import ir
from wrapper_ir.text import print_excerpt

_SHOWN = 3


def source_line(function: ir.Function, position: int) -> str:
    """Formats `from file:line, module, nodes a, b`, at most three of each kind; empty if nothing is known."""
    prov = function.body[position].prov
    parts = [_some("", prov.locations), _some("module ", prov.modules), _some("nodes ", prov.nodes)]
    text = "; ".join(part for part in parts if part)
    return f"from {text}" if text else ""


def _some(word: str, items: Sequence[str]) -> str:
    more = f" and {len(items) - _SHOWN} more" if len(items) > _SHOWN else ""
    return f"{word}{', '.join(items[:_SHOWN])}{more}" if items else ""


def place_lines(function: ir.Function, position: int) -> list[str]:
    """The op with its neighbours, long lines cut, and its source."""
    lines = [
        line if len(line) <= 160 else f"{line[:157]}..."
        for line in print_excerpt(function, position).splitlines()
    ]
    source = source_line(function, position)
    return [*lines, *([source] if source else [])]
