"""Distinct names of a target language for a program's names, which are any text."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

_ODD = re.compile(r"\W", re.ASCII)


def ascii_identifier(text: str) -> str:
    """`text` with every character that is not an ASCII letter, digit or `_` replaced by `_`; never empty, never a digit
    first."""
    name = _ODD.sub("_", text)
    return f"v{name}" if not name or name[0].isdigit() else name


class Namer:
    """Gives out identifiers that differ from each other, from `taken` and from what `is_reserved` says."""

    def __init__(self, is_reserved: Callable[[str], bool], taken: Iterable[str] = ()) -> None:
        self._is_reserved = is_reserved
        self._taken = set(taken)
        self._numbers: dict[str, int] = {}

    def __call__(self, wish: str) -> str:
        """`wish` as an identifier, with a number appended where it is taken."""
        base = name = ascii_identifier(wish)
        number = self._numbers.get(base, 0)
        while name in self._taken or self._is_reserved(name):
            number += 1
            name = f"{base}_{number}"
        self._numbers[base] = number
        self._taken.add(name)
        return name

    def claim(self, name: str) -> str:
        """`name` itself, taken from now on: it may hide something else of that name."""
        self._taken.add(name)
        return name

    @property
    def taken(self) -> frozenset[str]:
        """All names given out so far, and those that were taken before."""
        return frozenset(self._taken)
