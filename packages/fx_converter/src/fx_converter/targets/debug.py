"""What is for readers only."""

from __future__ import annotations

from typing import Any

from wrapper_ir.runtime import debug_value as show

__all__ = ["comment", "debug_value"]


def comment(text: str) -> None:
    """A line for the reader of the graph."""


def debug_value(
    value: Any, name: str, mode: str, label: str, dtype: str
) -> None:  # Any: a tensor or a number
    """Prints or saves a value, as the op says."""
    show(name, value, mode, label, dtype)
