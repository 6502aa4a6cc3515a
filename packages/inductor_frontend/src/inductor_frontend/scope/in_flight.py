"""Tracks collectives in flight while a function is built."""

from __future__ import annotations

from dataclasses import dataclass

from wrapper_ir import ir


@dataclass(frozen=True, slots=True)
class Flight:
    """One result of a collective. After a wait for `handle`, Inductor's `names` refer to the finished tensor.

    `by` is the operator that produces it.
    """

    handle: ir.Value
    names: tuple[str, ...]
    by: str


class InFlightCollectives:
    """Collectives in flight, by the storage that they use: Inductor waits for all operations over a
    storage."""

    def __init__(self) -> None:
        self._flying: dict[ir.Value, list[Flight]] = {}

    def add(self, root: ir.Value, flight: Flight) -> None:
        """Adds a started collective."""
        self._flying.setdefault(root, []).append(flight)

    def land(self, root: ir.Value) -> list[Flight]:
        """Removes and returns the collectives over `root`, in order."""
        return self._flying.pop(root, [])

    def rest(self) -> list[Flight]:
        """Removes and returns all remaining collectives, in order of their storages' first use."""
        rest = [flight for flights in self._flying.values() for flight in flights]
        self._flying.clear()
        return rest
