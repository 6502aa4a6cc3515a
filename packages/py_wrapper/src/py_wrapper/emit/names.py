"""Python names for values, symbols, kernels and functions."""

from __future__ import annotations

import builtins
import keyword
import re
from collections.abc import Iterable

__all__ = ["Namer", "identifier"]

_ODD = re.compile(r"\W", re.ASCII)
_RESERVED = frozenset({*keyword.kwlist, *keyword.softkwlist, *dir(builtins), "args", "math", "torch", "self"})


def identifier(text: str) -> str:
    """`text` with everything that cannot stand in a Python name replaced by `_`."""
    name = _ODD.sub("_", text)
    return f"v{name}" if not name or name[0].isdigit() else name


class Namer:
    """Gives out names that differ from each other, from `taken`, and from whatever Python itself uses."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = {*_RESERVED, *taken}

    def __call__(self, wish: str) -> str:
        """`wish` as an identifier, with a number behind it where it is taken."""
        base = name = identifier(wish)
        number = 0
        while name in self._taken:
            number += 1
            name = f"{base}_{number}"
        self._taken.add(name)
        return name

    def claim(self, name: str) -> str:
        """`name` itself, taken from now on: it may hide something else of that name."""
        self._taken.add(name)
        return name

    @property
    def taken(self) -> frozenset[str]:
        """All names given out so far, and the reserved ones."""
        return frozenset(self._taken)
