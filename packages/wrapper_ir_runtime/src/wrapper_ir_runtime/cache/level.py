"""One root on a local disk, used by any number of processes concurrently.

```
<root>/1/<namespace>/<2 letters>/<sha256 of namespace and key>/manifest.json, and the entry's files
         work/<random>/           entries that are being written
         removed/<random>/        entries that were removed in use; deleted when no longer used
         damaged/<name>-<random>/ entries that were set aside; deleted after a day
         locks/<namespace>-<nn>   held while a process writes an entry of that shard
         locks/evict              held while a process removes old entries
         counts/<namespace>       counts of all processes
```

An entry is written under `work` and renamed into place, so readers see it complete or not at all, even if a
process is killed. Nothing is flushed with `fsync`: a crash of the machine may leave incomplete entries. These
do not match their manifest and are written again, which costs less than flushing every one.

Users of an entry hold the shared lock of its folder. Removal requires the exclusive lock, so an entry in use
remains. Locks belong to the folder, not to its name, so they stay with it when it is moved. Any part may be
deleted at any time. Using an entry updates its time of last use.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import shutil
import stat
import time
import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from wrapper_ir_runtime.cache.locks import hold_file, lock, open_folder
from wrapper_ir_runtime.cache.ownership import check_own, make_own_folder

_LAYOUT = "1"
_INTERNAL = frozenset({"work", "removed", "damaged", "locks", "counts"})
_SHARDS = 64
_ABANDONED_SECONDS = 3600
"""An unlocked folder in `work` is removed after this time. It is not locked between its creation and its
lock."""
_DAMAGED_SECONDS = 24 * 3600


class Entry:
    """An entry in use. Its files remain in place until it is closed or garbage-collected."""

    __slots__ = ("__weakref__", "_close", "_descriptor", "folder", "name")

    def __init__(self, folder: Path, name: str, descriptor: int) -> None:
        """Takes over the descriptor of the folder, whose shared lock is held."""
        self.folder = folder
        self.name = name
        self._descriptor = descriptor
        self._close = weakref.finalize(self, os.close, descriptor)

    def read(self, file: str) -> bytes:
        """Returns the bytes of a file in the entry's folder, even if the folder was moved.

        Raises OSError, also if other users may write the folder or the file.
        """
        check_own(os.fstat(self._descriptor), self.folder)
        with open(os.open(file, os.O_RDONLY, dir_fd=self._descriptor), "rb") as stream:
            check_own(os.fstat(stream.fileno()), self.folder / file)
            return stream.read()

    def close(self) -> None:
        """Ends the use. Repeated calls have no effect."""
        self._close()

    def __enter__(self) -> Entry:
        """Returns the entry."""
        return self

    def __exit__(self, *raised: object) -> None:
        """Ends the use."""
        self.close()


@dataclass(frozen=True, slots=True)
class Draft:
    """A folder that is being filled, and its descriptor, which holds the shared lock."""

    folder: Path
    descriptor: int


@dataclass(frozen=True, slots=True)
class StoredEntry:
    """An entry as seen by eviction. `last_use` is in seconds since the epoch."""

    last_use: float
    bytes: int
    namespace: str
    folder: Path


@dataclass(frozen=True, slots=True)
class Level:
    """One root. It may not exist yet."""

    path: Path

    def open(self, namespace: str, name: str) -> Entry | None:
        """Returns the entry in use, with unverified files, and marks it as recently used.

        Returns None if it does not exist, or if other users may create it.
        """
        folder = self.folder_of(namespace, name)
        try:
            for above in (folder.parent, folder.parent.parent, folder.parent.parent.parent):
                check_own(above.stat(), above)
        except OSError:
            return None
        for _ in range(2):  # it may be replaced between opening and locking
            try:
                descriptor = open_folder(folder)
            except OSError:
                return None
            if lock(descriptor, shared=True) and _is_at(descriptor, folder):
                with contextlib.suppress(OSError):  # a read-only disk
                    os.utime(folder)
                return Entry(folder, name, descriptor)
            os.close(descriptor)
        return None

    @contextlib.contextmanager
    def draft(self) -> Iterator[Draft]:
        """Yields a folder to fill, on the disk of the root. It is removed afterwards unless it was moved in.

        Raises OSError.
        """
        folder = self._make("work") / secrets.token_hex(8)
        folder.mkdir(mode=0o700)
        try:
            descriptor = open_folder(folder)
            lock(descriptor, shared=True)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        try:
            yield Draft(folder, descriptor)
        finally:
            if folder.exists():
                shutil.rmtree(folder, ignore_errors=True)
            os.close(descriptor)

    def move_in(self, draft: Draft, namespace: str, name: str) -> Entry | None:
        """Publishes a draft as an entry in use; returns None if an entry of this name exists. Raises
        OSError."""
        target = self.folder_of(namespace, name)
        self._make(f"{namespace}/{name[:2]}")
        try:
            os.rename(draft.folder, target)
        except OSError as error:
            if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
                return None
            raise
        return Entry(target, name, os.dup(draft.descriptor))

    def discard(self, folder: Path) -> None:
        """Removes an entry at once for readers; its files are deleted when it is no longer used."""
        trash = self.path / _LAYOUT / "removed" / secrets.token_hex(8)
        with contextlib.suppress(OSError):
            self._make("removed")
            os.rename(folder, trash)
            self._remove_unused(trash)

    def evict(self, folder: Path) -> bool:
        """Removes an entry unless it is in use; returns whether it was removed."""
        trash = self.path / _LAYOUT / "removed" / secrets.token_hex(8)
        try:
            descriptor = open_folder(folder)
        except OSError:
            return False
        try:
            if not (lock(descriptor, shared=False) and _is_at(descriptor, folder)):
                return False
            self._make("removed")
            os.rename(folder, trash)
        except OSError:
            return False
        finally:
            os.close(descriptor)
        shutil.rmtree(trash, ignore_errors=True)
        return True

    def set_aside(self, entry: Entry) -> Path | None:
        """Moves a damaged entry out of readers' way; returns its new place, or None if it could not be
        moved."""
        place = self.path / _LAYOUT / "damaged" / f"{entry.name[:16]}-{secrets.token_hex(4)}"
        try:
            self._make("damaged")
            os.rename(entry.folder, place)
            os.utime(place)
        except OSError:
            return None
        return place

    @contextlib.contextmanager
    def alone(self, namespace: str, name: str, timeout: float) -> Iterator[bool]:
        """Holds the lock of an entry's shard; yields whether it was acquired.

        A caller must not acquire a second one inside.
        """
        with self._hold(f"{namespace}-{shard(name)}", timeout) as is_held:
            yield is_held

    def can_lock(self) -> bool:
        """Returns whether locks can be created here."""
        try:
            return os.access(self._make("locks"), os.W_OK)
        except OSError:
            return False

    @contextlib.contextmanager
    def evicting(self) -> Iterator[bool]:
        """Holds the lock of eviction if it is free; yields whether it was acquired."""
        with self._hold("evict", 0) as is_held:
            yield is_held

    def folder_of(self, namespace: str, name: str) -> Path:
        """Returns the folder of an entry, which may not exist."""
        return self.path / relative_folder(namespace, name)

    def counts_file(self, namespace: str) -> Path:
        """Returns the file with the counts of all processes; creates its folder. Raises OSError."""
        return self._make("counts") / namespace

    def namespaces(self) -> list[str]:
        """Returns the namespaces that have a folder."""
        try:
            names = [entry.name for entry in os.scandir(self.path / _LAYOUT) if entry.is_dir()]
        except OSError:
            return []
        return sorted(name for name in names if name not in _INTERNAL)

    def entries(self, namespace: str) -> Iterator[StoredEntry]:
        """Yields all entries, except those that are removed concurrently."""
        for folder in (self.path / _LAYOUT / namespace).glob("*/*"):
            with contextlib.suppress(OSError):
                yield StoredEntry(folder.stat().st_mtime, _bytes_in(folder), namespace, folder)

    def sweep(self, damaged_seconds: float = _DAMAGED_SECONDS) -> None:
        """Removes drafts of killed writers, and entries that were set aside a day ago."""
        for name, seconds in (("work", _ABANDONED_SECONDS), ("removed", 0), ("damaged", damaged_seconds)):
            for folder in (self.path / _LAYOUT / name).glob("*"):
                with contextlib.suppress(OSError):
                    if folder.stat().st_mtime <= time.time() - seconds:
                        self._remove_unused(folder)

    def is_private(self) -> bool:
        """Returns whether only this user could have written files there: kernels and code are loaded from
        it."""
        try:
            status = self.path.stat(follow_symlinks=False)
        except OSError:
            return False
        others = status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
        return stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and not others

    @contextlib.contextmanager
    def _hold(self, name: str, timeout: float) -> Iterator[bool]:
        try:
            folder = self._make("locks")
        except OSError:
            yield False
            return
        with hold_file(folder / name, timeout) as is_held:
            yield is_held

    def _make(self, name: str) -> Path:
        """Creates a folder below the root that only this user may write. Raises OSError.

        Modes apply to the last part of a path only, so each part is created separately.
        """
        if not self.path.is_dir():
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        return make_own_folder(self.path, (_LAYOUT, *name.split("/")))

    def _remove_unused(self, folder: Path) -> None:
        descriptor = open_folder(folder)
        try:
            if lock(descriptor, shared=False):
                shutil.rmtree(folder, ignore_errors=True)
        finally:
            os.close(descriptor)


def relative_folder(namespace: str, name: str) -> str:
    """Returns the folder of an entry relative to a root."""
    return f"{_LAYOUT}/{namespace}/{name[:2]}/{name}"


def shard(name: str) -> str:
    """Returns the shard of an entry. Locks are per shard, which bounds the number of open files."""
    return f"{int(name[:4], 16) % _SHARDS:02d}"


def _is_at(descriptor: int, folder: Path) -> bool:
    """Returns whether an open folder still has its name."""
    try:
        return os.path.samestat(os.fstat(descriptor), folder.stat(follow_symlinks=False))
    except OSError:
        return False


def _bytes_in(folder: Path | str) -> int:
    total = 0
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                total += _bytes_in(entry.path)
            elif entry.is_file(follow_symlinks=False):
                total += entry.stat().st_size
    return total
