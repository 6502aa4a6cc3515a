"""Sets of buffers that programs keep from call to call."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

__all__ = ["SpareBuffers"]

T = TypeVar("T")


class SpareBuffers(Generic[T]):
    """Sets of buffers that no call uses now, by what orders the calls that may take them one after the other (a stream).

    Each set is used by one call at a time, so calls may overlap, in threads and in each other. A call that raises does not
    give its set back.
    """

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._sets: dict[Hashable, list[T]] = {}

    def take(self, key: Hashable) -> T:
        """A set for one call: one that calls with this key have used before, or a new one. None has no others."""
        try:
            return self._sets[key].pop()
        except (KeyError, IndexError):
            return self._make()

    def give(self, key: Hashable, buffers: T) -> None:
        """The call is over: the next one may take its set."""
        if key is not None:
            self._sets.setdefault(key, []).append(buffers)
