"""What a cache did: in this process, and in all processes since it was made."""

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
    """Hits that came from a shared level; counted among `hits`, too."""
    stored: int = 0
    stored_bytes: int = 0
    damaged: int = 0
    """Entries that were not what their writer wrote. Each was reported, set aside, and counted as a miss."""
    evicted: int = 0
    unwritten: int = 0
    """Entries that the configured folder did not take (full, read-only): they went to another folder, or nowhere."""


_NAMES = tuple(field.name for field in fields(StoreStatistics))


class Counters:
    """Counts of one namespace that several threads add to."""

    def __init__(self) -> None:
        """All counts are zero."""
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()
        self._flushed: Counter[str] = Counter()
        self.on_count: Callable[[str, int], None] | None = None
        """Is told of every count."""

    def count(self, name: str, by: int = 1) -> None:
        """Adds to the count that `StoreStatistics` calls `name`."""
        with self._lock:
            self._counts[name] += by
        if self.on_count is not None:
            self.on_count(name, by)

    def read(self) -> StoreStatistics:
        """The counts so far."""
        with self._lock:
            return StoreStatistics(**self._counts)

    def flush(self, write: Callable[[Mapping[str, int]], None]) -> None:
        """Hands on what was counted since the last time, if anything was."""
        with self._lock:
            new = self._counts - self._flushed
            self._flushed = Counter(self._counts)
        if new:
            write(new)


def add_counts(path: Path, counts: Mapping[str, int]) -> None:
    """Adds counts to a file that all processes add to: a line each, one line once it is long. Where the file cannot be
    written, nothing is counted."""
    with contextlib.suppress(OSError), hold_file(path, 1.0) as held:
        if not held:
            return
        if path.stat().st_size > _COMPACT_BYTES:
            counts = Counter(_numbers(path)) + Counter(counts)
            path.write_text(json.dumps(counts) + "\n", encoding="utf-8")
            return
        with open(os.open(path, os.O_WRONLY | os.O_APPEND), "w", encoding="utf-8") as file:
            file.write(json.dumps(counts) + "\n")


def read_counts(path: Path) -> StoreStatistics:
    """The counts of all processes; zeros where there is no file."""
    return StoreStatistics(**_numbers(path))


def _numbers(path: Path) -> dict[str, int]:
    """The sums of a file's lines; lines that a full disk cut off are passed over."""
    total: Counter[str] = Counter()
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return {}
    for line in lines:
        try:
            found = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(found, dict):
            total.update({name: found[name] for name in _NAMES if isinstance(found.get(name), int)})
    return dict(total)
