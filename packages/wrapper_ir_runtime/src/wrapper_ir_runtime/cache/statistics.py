"""Statistics of a cache: of this process, and of all processes since its creation."""

from __future__ import annotations

import contextlib
import json
import os
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path

from wrapper_ir_runtime.cache.locks import hold_file

_COMPACT_BYTES = 64 << 10


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreStatistics:
    """Counts of one namespace."""

    hits: int = 0
    misses: int = 0
    shared_hits: int = 0
    """Hits from a shared level; also counted in `hits`."""
    stored: int = 0
    stored_bytes: int = 0
    damaged: int = 0
    """Entries that differed from what was written. Each was reported, set aside, and counted as a miss."""
    evicted: int = 0
    unwritten: int = 0
    """Entries that the configured folder did not accept (full, read-only); written elsewhere, or not at all.
    """


_NAMES = tuple(field.name for field in fields(StoreStatistics))


class Counters:
    """Counts of one namespace, updated by several threads."""

    def __init__(self) -> None:
        """Sets all counts to zero."""
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()
        self._flushed: Counter[str] = Counter()
        self.on_count: Callable[[str, int], None] | None = None
        """Called for every count."""

    def count(self, name: str, by: int = 1) -> None:
        """Adds to the field `name` of `StoreStatistics`."""
        with self._lock:
            self._counts[name] += by
        if self.on_count is not None:
            self.on_count(name, by)

    def read(self) -> StoreStatistics:
        """Returns the counts so far."""
        with self._lock:
            return StoreStatistics(**self._counts)

    def flush(self, write: Callable[[Mapping[str, int]], None]) -> None:
        """Passes the counts since the last flush to `write`, if there are any."""
        with self._lock:
            new = self._counts - self._flushed
            self._flushed = Counter(self._counts)
        if new:
            write(new)


def add_counts(path: Path, counts: Mapping[str, int]) -> None:
    """Adds counts to a file that all processes append to: one line each, compacted to one line when it is
    long.

    If the file cannot be written, nothing is counted.
    """
    with contextlib.suppress(OSError), hold_file(path, 1.0) as is_locked:
        if not is_locked:
            return
        if path.stat().st_size > _COMPACT_BYTES:
            counts = Counter(_numbers(path)) + Counter(counts)
            path.write_text(json.dumps(counts) + "\n", encoding="utf-8")
            return
        with open(os.open(path, os.O_WRONLY | os.O_APPEND), "w", encoding="utf-8") as file:
            file.write(json.dumps(counts) + "\n")


def read_counts(path: Path) -> StoreStatistics:
    """Returns the counts of all processes; zeros if the file does not exist."""
    return StoreStatistics(**_numbers(path))


def _numbers(path: Path) -> dict[str, int]:
    """Returns the sums of a file's lines. Lines that a full disk truncated are ignored."""
    total: Counter[str] = Counter()
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return {}
    for line in lines:
        try:
            counts = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(counts, dict):
            total.update({name: counts[name] for name in _NAMES if isinstance(counts.get(name), int)})
    return dict(total)
