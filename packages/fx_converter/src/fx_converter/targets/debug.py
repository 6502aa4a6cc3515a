"""What is for readers only."""

from __future__ import annotations

from typing import Any

from fx_converter._compat import has_effect
from wrapper_ir.runtime import debug_value as show

__all__ = ["comment", "debug_value"]


def comment(text: str) -> None:
    """A line for the reader of the graph."""


@has_effect
def debug_value(
    value: Any,  # a tensor or a number
    name: str,
    mode: str,
    label: str,
    dtype: str,
    phase: str = "here",
    kernel: str = "",
) -> None:
    """Prints or saves a value, as the op says."""
    show(name, value, mode, label, dtype, phase, kernel)
