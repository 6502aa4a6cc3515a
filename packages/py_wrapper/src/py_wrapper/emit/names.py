"""Python names for values, symbols, kernels and functions."""

from __future__ import annotations

from collections.abc import Iterable

from wrapper_ir.support.quoting import Namer, python_names

_USED = ("args", "math", "self", "torch")


def namer(taken: Iterable[str] = ()) -> Namer:
    """Gives out names that differ from each other, from `taken`, and from whatever every function uses."""
    return python_names((*_USED, *taken))
