"""Names of nodes that were wished for."""

from __future__ import annotations


class Names:
    """Tells apart wishes that come again, as calls of one kernel do, by their last number. Graphs do that too, but torch 2.11
    counts up from the wish each time, so that a kernel called n times takes n * n steps."""

    def __init__(self) -> None:
        self._given: set[str] = set()
        self._last: dict[str, int] = {}

    def fresh(self, wish: str) -> str:
        """The wish where it is new, or else its next number."""
        base, _, digits = wish.rpartition("_")
        if not (base and digits.isdecimal()):
            base, number = wish, 0
        else:
            number = int(digits)
        last = self._last.get(base, -1)
        if wish in self._given:
            number = last + 1
            wish = f"{base}_{number}"
        self._last[base] = max(last, number)
        self._given.add(wish)
        return wish
