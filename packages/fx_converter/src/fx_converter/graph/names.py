"""Unique names of nodes."""

from __future__ import annotations


class Names:
    """Makes repeated names unique by a trailing number, as for the calls of one kernel. Graphs do so too, but
    torch 2.11 counts from the candidate each time, which takes n * n steps for n calls."""

    def __init__(self) -> None:
        self._used: set[str] = set()
        self._last: dict[str, int] = {}

    def fresh(self, candidate: str) -> str:
        """Returns the candidate if it is unused, or else its next number."""
        base, _, digits = candidate.rpartition("_")
        if not (base and digits.isdecimal()):
            base, number = candidate, 0
        else:
            number = int(digits)
        last = self._last.get(base, -1)
        if candidate in self._used:
            number = last + 1
            candidate = f"{base}_{number}"
        self._last[base] = max(last, number)
        self._used.add(candidate)
        return candidate
