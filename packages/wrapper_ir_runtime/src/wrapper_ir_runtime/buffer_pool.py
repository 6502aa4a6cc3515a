"""Buffers that a program reuses from call to call."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

T = TypeVar("T")


class BufferPool(Generic[T]):
    """Sets of buffers that no call uses now, by key. Calls with equal keys are ordered, as calls on one
    stream are.

    One call uses a set at a time, so calls may overlap: in several threads, or nested. A call that raises
    does not return its set.
    """

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._sets: dict[Hashable, list[T]] = {}

    def take(self, key: Hashable) -> T:
        """Returns a set for one call: one that an earlier call with this key gave back, otherwise a new one.

        For the key None it always creates a new set.
        """
        try:
            return self._sets[key].pop()
        except (KeyError, IndexError):
            return self._make()

    def give(self, key: Hashable, buffers: T) -> None:
        """Gives a set back at the end of its call. Under the key None it is dropped."""
        if key is not None:
            self._sets.setdefault(key, []).append(buffers)
