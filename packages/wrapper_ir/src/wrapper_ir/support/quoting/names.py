"""Distinct identifiers of a target language for a program's names, which are arbitrary text."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

_ODD = re.compile(r"\W", re.ASCII)


def ascii_identifier(text: str) -> str:
    """Replaces every character except ASCII letters, digits and `_` by `_`.

    The result is never empty and never starts with a digit.
    """
    name = _ODD.sub("_", text)
    return f"v{name}" if not name or name[0].isdigit() else name


class Namer:
    """Creates identifiers that differ from each other, from `names` and from reserved names."""

    def __init__(self, is_reserved: Callable[[str], bool], names: Iterable[str] = ()) -> None:
        self._is_reserved = is_reserved
        self._taken = set(names)
        self._numbers: dict[str, int] = {}

    def __call__(self, wish: str) -> str:
        """Returns `wish` as an identifier, followed by a number if it is in use or reserved."""
        base = name = ascii_identifier(wish)
        number = self._numbers.get(base, 0)
        while name in self._taken or self._is_reserved(name):
            number += 1
            name = f"{base}_{number}"
        self._numbers[base] = number
        self._taken.add(name)
        return name

    def claim(self, name: str) -> str:
        """Marks `name` as used and returns it, even if it hides another use of the name."""
        self._taken.add(name)
        return name

    @property
    def taken(self) -> frozenset[str]:
        """All names in use, including the initial ones."""
        return frozenset(self._taken)
