"""What a store did in this process."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass

__all__ = ["Counters", "StoreStatistics"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreStatistics:
    """Counts since the store was made, in this process."""

    hits: int = 0
    misses: int = 0
    shared_hits: int = 0
    """Hits that came from the shared second level; counted among `hits`, too."""
    stored: int = 0
    damaged: int = 0
    """Entries that were not what their writer wrote. Each was reported, removed, and counted as a miss."""
    evicted: int = 0
    unwritten: int = 0
    """Entries that the folder did not take (full, read-only): they went to the fallback or stayed in memory."""


class Counters:
    """Counts that several threads add to."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()

    def count(self, name: str, by: int = 1) -> None:
        """Adds to the count that `StoreStatistics` calls `name`."""
        with self._lock:
            self._counts[name] += by

    def read(self) -> StoreStatistics:
        """The counts so far."""
        with self._lock:
            return StoreStatistics(**self._counts)
