"""Buffers that a program reuses from call to call."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

T = TypeVar("T")


class BufferPool(Generic[T]):
    """Sets of buffers that no call uses now, by key. Calls with equal keys run in order, as calls on one stream do.

    One call uses a set at a time, so calls may overlap: from several threads, or one inside another. A call that raises
    does not return its set.
    """

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._sets: dict[Hashable, list[T]] = {}

    def take(self, key: Hashable) -> T:
        """A set for one call: one that an earlier call with this key returned, else a new one; for the key None always a
        new one."""
        try:
            return self._sets[key].pop()
        except (KeyError, IndexError):
            return self._make()

    def give(self, key: Hashable, buffers: T) -> None:
        """Returns a set at the end of its call. Under the key None it is dropped."""
        if key is not None:
            self._sets.setdefault(key, []).append(buffers)
