"""What is in flight while a function is built."""

from __future__ import annotations

from dataclasses import dataclass

from wrapper_ir import ir


@dataclass(frozen=True, slots=True)
class Flight:
    """One result of a collective. Once `handle` was waited for, Inductor's `names` mean the finished tensor;
    `by` is the operator that makes it."""

    handle: ir.Value
    names: tuple[str, ...]
    by: str


class InFlightCollectives:
    """InFlightCollectives by the storage that they use. Inductor waits for storages: all that is in flight there."""

    def __init__(self) -> None:
        self._flying: dict[ir.Value, list[Flight]] = {}

    def add(self, root: ir.Value, flight: Flight) -> None:
        """`flight` has begun."""
        self._flying.setdefault(root, []).append(flight)

    def land(self, root: ir.Value) -> list[Flight]:
        """What was in flight over `root`, in order; it is no longer."""
        return self._flying.pop(root, [])

    def rest(self) -> list[Flight]:
        """All that is still in flight, in order of the storages' first use; it is no longer."""
        found = [flight for flights in self._flying.values() for flight in flights]
        self._flying.clear()
        return found
