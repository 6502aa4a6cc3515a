"""The cache and its namespaces: entries that exist are found, missing ones are written once."""

from __future__ import annotations

import contextlib
import functools
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from wrapper_ir.errors import StoreError, StoreWarning
from wrapper_ir_runtime.cache.archive import pack, unpack, write_files
from wrapper_ir_runtime.cache.eviction import LOW_WATER, Trimmed, trim
from wrapper_ir_runtime.cache.level import Draft, Entry, Level, shard
from wrapper_ir_runtime.cache.manifest import (
    MANIFEST,
    DamagedEntry,
    check_bytes,
    check_files,
    entry_name,
    parse_manifest,
    seal,
)
from wrapper_ir_runtime.cache.places import Places
from wrapper_ir_runtime.cache.settings import CacheSettings
from wrapper_ir_runtime.cache.shared import SharedLevel
from wrapper_ir_runtime.cache.statistics import Counters, StoreStatistics, add_counts, read_counts

_DATA = "data"
"""The only file of an entry that consists of bytes."""
_LOOK_AFTER = 64
"""A process checks the size of the root after it has written a 64th of the limit."""
_ATTEMPTS = 100

Write = Callable[[Path], object]
"""Writes the files of an entry into an empty folder. Called again with another folder if that one fails."""


class Store:
    """The entries of one namespace.

    Keys are texts that identify everything that an entry depends on; only their hash is stored. A store may
    be used by threads and processes, even if one is killed at any moment. Unreadable entries count as absent.
    Users are warned with WIR250, WIR251 and WIR253 if another folder is written, WIR254 if an entry is
    damaged, and WIR255 if a shared cache cannot be reached.
    """

    def __init__(self, cache: Cache, namespace: str) -> None:
        """See `Cache.store`."""
        self.namespace = namespace
        self._cache = cache

    def find(self, key: str) -> Entry | None:
        """Returns the complete entry under `key`, in use, or None."""
        entry = self._find(entry_name(self.namespace, key))
        self._count("misses" if entry is None else "hits")
        return entry

    def ensure(self, key: str, write: Write) -> Entry:
        """Returns the entry under `key`, in use; if absent, one process at a time writes it.

        Raises the errors of `write`, and StoreError WIR250 or WIR252 if no folder can be written. `write`
        must not wait for another entry.
        """
        if (entry := self.find(key)) is not None:
            return entry
        with self.alone(key):
            entry = self._find(entry_name(self.namespace, key))
            if entry is not None:  # another process wrote it meanwhile
                self._count("hits")
                return entry
            return self.add(key, write)

    def add(self, key: str, write: Write, *, replace: bool = False) -> Entry:
        """Writes an entry and returns it, in use.

        If a complete one exists, it is returned instead, unless `replace` is set. Raises as `ensure`.
        """
        return self._add(entry_name(self.namespace, key), write, replace=replace)

    def get(self, key: str) -> bytes | None:
        """Returns the bytes under `key`, or None if they are absent or incomplete."""
        data = self._get(entry_name(self.namespace, key))
        self._count("misses" if data is None else "hits")
        return data

    def put(self, key: str, data: bytes) -> None:
        """Stores bytes under `key`, replacing existing ones. Warns if no folder can be written."""
        name = entry_name(self.namespace, key)
        try:
            self._add(name, lambda folder: (folder / _DATA).write_bytes(data), replace=True).close()
        except StoreError as error:
            self._count("unwritten")
            warnings.warn(StoreWarning(error.code, error.message), stacklevel=3)

    def make(self, key: str, make: Callable[[], bytes]) -> bytes:
        """Returns the bytes under `key`; if absent, one process at a time creates them with `make`.

        Raises the errors of `make`. `make` must not wait for another entry.
        """
        existing = self.get(key)
        if existing is not None:
            return existing
        with self.alone(key):
            existing = self._get(entry_name(self.namespace, key))
            if existing is not None:  # another process created it meanwhile
                self._count("hits")
                return existing
            data = make()
            self.put(key, data)
            return data

    @contextlib.contextmanager
    def alone(self, key: str, timeout: float | None = None) -> Iterator[bool]:
        """Excludes other processes and threads from writing the entry of `key`; yields whether it does.

        It does not if the folder cannot be written, or after a wait of `timeout` seconds. Callers continue in
        that case: at worst, work is done twice.
        """
        seconds = self._cache.settings.wait_seconds if timeout is None else timeout
        level = self._cache.locking_level()
        if level is None:
            yield False
            return
        with level.alone(self.namespace, entry_name(self.namespace, key), seconds) as is_held:
            yield is_held

    @contextlib.contextmanager
    def alone_some(self, keys: Iterable[str]) -> Iterator[frozenset[str]]:
        """Acquires, without waiting, the locks of those keys that are free; yields these keys.

        Yields all keys if locks are not available. No process waits for a lock while holding another one, so
        processes with overlapping sets of keys cannot deadlock.
        """
        level = self._cache.locking_level()
        shards: dict[str, list[str]] = {}
        for key in keys:
            shards.setdefault(shard(entry_name(self.namespace, key)), []).append(key)
        with contextlib.ExitStack() as locks:
            free = [
                members
                for _, members in sorted(shards.items())
                if level is None
                or locks.enter_context(level.alone(self.namespace, entry_name(self.namespace, members[0]), 0))
            ]
            yield frozenset(key for members in free for key in members)

    def remove(self, key: str) -> None:
        """Removes an entry that is not useful."""
        for level in self._cache.places.readable():
            level.discard(level.folder_of(self.namespace, entry_name(self.namespace, key)))

    def refuse(self, entry: Entry, why: str) -> None:
        """Sets an entry aside whose files are as written but invalid; reports and counts it as damaged."""
        owner = [level for level in self._cache.places.readable() if entry.folder.is_relative_to(level.path)]
        self._report(owner[0] if owner else None, entry, why)

    def folder_of(self, key: str) -> Path | None:
        """Returns the folder of an entry in the configured root; the entry may not exist."""
        own = self._cache.settings.folder
        return None if own is None else Level(own).folder_of(self.namespace, entry_name(self.namespace, key))

    def stats(self) -> StoreStatistics:
        """Returns the counts of this process so far."""
        return self._cache.counters(self.namespace).read()

    def _count(self, name: str, by: int = 1) -> None:
        self._cache.counters(self.namespace).count(name, by)

    def _find(self, name: str) -> Entry | None:
        for level in self._cache.places.readable():
            if (entry := self._open_whole(level, name)) is not None:
                self._cache.used[self.namespace, name] = None
                return entry
        files = self._fetch(name)
        if files is None:
            return None
        with contextlib.suppress(StoreError):
            return self._add(name, functools.partial(write_files, files), replace=False)
        return None

    def _open_whole(self, level: Level, name: str) -> Entry | None:
        entry = level.open(self.namespace, name)
        if entry is None:
            return None
        try:
            check_files(entry.folder, parse_manifest(entry.read(MANIFEST), name))
        except (DamagedEntry, OSError) as error:
            self._report(level, entry, str(error))
            entry.close()
            return None
        return entry

    def _get(self, name: str) -> bytes | None:
        for level in self._cache.places.readable():
            entry = level.open(self.namespace, name)
            if entry is None:
                continue
            with entry:
                try:
                    files = parse_manifest(entry.read(MANIFEST), name)
                    data = entry.read(_DATA)
                    check_bytes(_DATA, data, files)
                    self._cache.used[self.namespace, name] = None
                    return data
                except (DamagedEntry, OSError) as error:
                    self._report(level, entry, str(error))
        fetched = self._fetch(name)
        if fetched is None:
            return None
        with contextlib.suppress(StoreError):
            self._add(name, functools.partial(write_files, fetched), replace=False).close()
        return fetched.get(_DATA)

    def _fetch(self, name: str) -> dict[str, bytes] | None:
        """Returns the files of an entry from the first shared level that has it."""
        for level in self._cache.shared:
            try:
                files = level.fetch(self.namespace, name)
            except DamagedEntry as error:
                self._count("damaged")
                _warn_damaged(f"the entry {name} of the shared cache {level.root}", "not used", str(error))
                continue
            if files is not None:
                self._count("shared_hits")
                return files
        return None

    def _report(self, level: Level | None, entry: Entry, why: str) -> None:
        self._count("damaged")
        place = None if level is None else level.set_aside(entry)
        outcome = "not used" if place is None else f"set aside as {place}"
        _warn_damaged(f"the cache entry {entry.folder}", outcome, why)

    def _add(self, name: str, write: Write, *, replace: bool) -> Entry:
        (entry, size), is_own = self._cache.places.write(
            lambda level: self._write_into(level, name, write, replace)
        )
        self._cache.used[self.namespace, name] = None
        self._count("stored" if is_own else "unwritten")
        if is_own:
            self._count("stored_bytes", size)
        self._cache.look(size)
        return entry

    def _write_into(self, level: Level, name: str, write: Write, replace: bool) -> tuple[Entry, int]:
        with level.draft() as draft:
            write(draft.folder)
            size = seal(draft.folder, name)
            return self._publish(level, draft, name, replace), size

    def _publish(self, level: Level, draft: Draft, name: str, replace: bool) -> Entry:
        for _ in range(_ATTEMPTS):
            if (entry := level.move_in(draft, self.namespace, name)) is not None:
                return entry
            if not replace and (entry := self._open_whole(level, name)) is not None:
                return entry
            level.discard(level.folder_of(self.namespace, name))
        raise OSError(f"others replace the entry {level.folder_of(self.namespace, name)} again and again")


class Cache:
    """All namespaces of one root, with a common limit, common warnings, and the folder of this process."""

    def __init__(self, settings: CacheSettings) -> None:
        """Accesses no folder."""
        self.settings = settings
        self.places = Places(settings)
        self.shared = tuple(map(SharedLevel, settings.shared))
        self._counters: dict[str, Counters] = {}
        self.used: dict[tuple[str, str], None] = {}
        """Entries that this process has found or written, by namespace and name, in order."""
        self._lock = threading.Lock()
        self._unseen: int | None = None
        """Bytes written since the last check of the size; None before the first check."""

    def store(self, namespace: str, on_count: Callable[[str, int], None] | None = None) -> Store:
        """Returns the store of one namespace.

        `on_count` is called for every count, with a field name of `StoreStatistics`. It replaces an earlier
        one.
        """
        if on_count is not None:
            self.counters(namespace).on_count = on_count
        return Store(self, namespace)

    def counters(self, namespace: str) -> Counters:
        """Returns the counters of this process for a namespace."""
        with self._lock:
            return self._counters.setdefault(namespace, Counters())

    def totals(self, namespace: str) -> StoreStatistics:
        """Returns the counts of all processes for a namespace; of running ones, up to their last flush."""
        self.flush()
        own = self.places.own
        try:
            return StoreStatistics() if own is None else read_counts(own.counts_file(namespace))
        except OSError:
            return StoreStatistics()

    def flush(self) -> None:
        """Adds the counts of this process to those of all processes."""
        own = self.places.own
        if own is None:
            return
        for namespace, counters in list(self._counters.items()):
            with contextlib.suppress(OSError):
                path = own.counts_file(namespace)
                counters.flush(functools.partial(add_counts, path))

    def trim(
        self, *, namespace: str | None = None, to: int | None = None, older_than: float | None = None
    ) -> Trimmed:
        """Removes entries from each root; see `eviction.trim`."""
        total = Trimmed()
        for level in self.places.readable():
            total += trim(level, namespace=namespace, to=to, older_than=older_than)
        for name, count in total.entries.items():
            self.counters(name).count("evicted", count)
        self.flush()
        return total

    def pack(self) -> bytes:
        """Returns the existing entries that this process has found or written, as one zip file."""
        with contextlib.ExitStack() as uses:
            entries = []
            for namespace, name in list(self.used):
                candidates = (level.open(namespace, name) for level in self.places.readable())
                if (entry := next(filter(None, candidates), None)) is not None:
                    entries.append((namespace, name, uses.enter_context(entry).folder))
            return pack(entries)

    def unpack(self, data: bytes) -> int:
        """Writes the missing entries of such a file; returns the number of all its entries.

        Contents of a cache are executed, so `data` must be trusted. Raises StoreError WIR260 for other data,
        and as `Store.ensure`.
        """
        entries = [*unpack(data)]
        for namespace, name, files in entries:
            self.store(namespace)._add(name, functools.partial(write_files, files), replace=False).close()
        return len(entries)

    def clear(self, namespace: str | None = None) -> Trimmed:
        """Removes all entries, or those of one namespace, that are not in use. Without one, also damaged
        entries."""
        removed = self.trim(namespace=namespace, to=0)
        if namespace is None:
            for level in self.places.readable():
                level.sweep(damaged_seconds=0)
        return removed

    def usage(self) -> dict[str, tuple[int, int]]:
        """Returns the number and bytes of entries by namespace, empty namespaces included."""
        usage: dict[str, tuple[int, int]] = {}
        for level in self.places.readable():
            for name in level.namespaces():
                sizes = [entry.bytes for entry in level.entries(name)]
                entries, size = usage.get(name, (0, 0))
                usage[name] = (entries + len(sizes), size + sum(sizes))
        return dict(sorted(usage.items()))

    def shrink(self) -> None:
        """Reduces each root that is over its limit to four fifths of it, least recently used entries first.

        Does nothing while another process does this.
        """
        limit = self.settings.limit_bytes
        for level in self.places.readable():
            with level.evicting() as mine:
                if not mine:
                    continue
                total = sum(e.bytes for name in level.namespaces() for e in level.entries(name))
                if total <= limit:
                    level.sweep()
                    continue
                for name, count in trim(level, to=int(limit * LOW_WATER)).entries.items():
                    self.counters(name).count("evicted", count)

    def look(self, nbytes: int) -> None:
        """Checks the size of the root now and then: a check per entry would cost more than the entry."""
        with self._lock:
            if self._unseen is not None and self._unseen + nbytes <= self.settings.limit_bytes // _LOOK_AFTER:
                self._unseen += nbytes
                return
            self._unseen = 0
        self.shrink()
        self.flush()

    def locking_level(self) -> Level | None:
        """Returns the first writable root that supports locks, or None."""
        return next((level for level in self.places.writable() if level.can_lock()), None)


def _warn_damaged(what: str, outcome: str, why: str) -> None:
    warnings.warn(StoreWarning("WIR254", f"{what} is damaged and {outcome}: {why}"), stacklevel=5)
