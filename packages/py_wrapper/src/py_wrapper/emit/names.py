"""Python names for values, symbols, kernels and functions."""

from __future__ import annotations

from collections.abc import Iterable

from wrapper_ir.support.quoting import Namer, python_names

_USED = ("args", "math", "self", "torch")


def namer(reserved: Iterable[str] = ()) -> Namer:
    """Returns a generator of names that differ from each other, from `reserved`, and from the names that
    every function uses."""
    return python_names((*_USED, *reserved))
