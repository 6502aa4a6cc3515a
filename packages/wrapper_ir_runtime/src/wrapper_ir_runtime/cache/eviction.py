"""Removes entries when a cache is too large, too old or cleared: least recently used first, never entries in
use."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field

from wrapper_ir_runtime.cache.level import Level, StoredEntry

LOW_WATER = 0.8
"""A root over its limit is reduced to this fraction of it, so that not every write has to check its size."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trimmed:
    """Result of a removal.

    `entries` counts removed entries by namespace, `bytes` is their size, and `left` is the size of the
    remaining ones. `in_use` counts entries that were kept because a process uses them.
    """

    entries: Counter[str] = field(default_factory=Counter)
    bytes: int = 0
    left: int = 0
    in_use: int = 0

    def __add__(self, other: Trimmed) -> Trimmed:
        """Returns the sum of both results."""
        return Trimmed(
            entries=self.entries + other.entries,
            bytes=self.bytes + other.bytes,
            left=self.left + other.left,
            in_use=self.in_use + other.in_use,
        )


def trim(
    level: Level, *, namespace: str | None = None, to: int | None = None, older_than: float | None = None
) -> Trimmed:
    """Removes entries of one namespace, or of all, that were unused for `older_than` seconds.

    Then removes the least recently used ones until at most `to` bytes are left.
    """
    names = level.namespaces() if namespace is None else [namespace]
    entries = sorted((e for name in names for e in level.entries(name)), key=lambda entry: entry.last_use)
    total = sum(entry.bytes for entry in entries)
    oldest = None if older_than is None else time.time() - older_than
    removed: Counter[str] = Counter()
    freed = in_use = 0
    for entry in entries:
        if not _must_go(entry, oldest, None if to is None else total - freed - to):
            continue
        if level.evict(entry.folder):
            removed[entry.namespace] += 1
            freed += entry.bytes
        elif entry.folder.exists():
            in_use += 1
    level.sweep()
    return Trimmed(entries=removed, bytes=freed, left=total - freed, in_use=in_use)


def _must_go(entry: StoredEntry, oldest: float | None, excess: int | None) -> bool:
    return (oldest is not None and entry.last_use < oldest) or (excess is not None and excess > 0)
