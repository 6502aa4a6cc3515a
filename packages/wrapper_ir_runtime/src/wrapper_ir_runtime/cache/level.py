"""One root on a local disk, which any number of processes use at once.

```
<root>/1/<namespace>/<2 letters>/<sha256 of namespace and key>/manifest.json, and the entry's files
         work/<random>/           entries that are being written
         removed/<random>/        entries that were removed in use; they go once nobody uses them
         damaged/<name>-<random>/ entries that were set aside; they go after a day
         locks/<namespace>-<nn>   held while a process makes an entry of that shard
         locks/evict              held while a process removes old entries
         counts/<namespace>       what all processes did
```

An entry is written under `work` and renamed into place, so readers see all of it or nothing, whoever is killed when.
Nothing is flushed to the disk by `fsync`: a crash of the whole machine may leave entries incomplete. They do not fit
their manifest then, and are made again, which costs less than flushing every one.

Who uses an entry holds the shared lock of its folder, and who removes one takes the exclusive lock first: an entry that is
in use stays. Locks belong to the folder itself, not to its name, so they go where it is moved to.
Any part may be deleted at any time. Using an entry makes it young.
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
"""A folder in `work` that nobody holds is removed after this time: between making and locking it, one is not held."""
_DAMAGED_SECONDS = 24 * 3600


class Entry:
    """An entry in use: its files stay where they are until it is closed, or collected."""

    __slots__ = ("__weakref__", "_close", "_descriptor", "folder", "name")

    def __init__(self, folder: Path, name: str, descriptor: int) -> None:
        """Takes over the descriptor of the folder, whose shared lock is held."""
        self.folder = folder
        self.name = name
        self._descriptor = descriptor
        self._close = weakref.finalize(self, os.close, descriptor)

    def read(self, file: str) -> bytes:
        """The bytes of a file in the entry's folder, also where the folder has been moved. Raises OSError, also where others may write
        the folder or the file."""
        check_own(os.fstat(self._descriptor), self.folder)
        with open(os.open(file, os.O_RDONLY, dir_fd=self._descriptor), "rb") as stream:
            check_own(os.fstat(stream.fileno()), self.folder / file)
            return stream.read()

    def close(self) -> None:
        """Ends the use; a second time it does nothing."""
        self._close()

    def __enter__(self) -> Entry:
        """The entry itself."""
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
    """An entry as eviction sees it; `used`: seconds since the epoch."""

    used: float
    bytes: int
    namespace: str
    folder: Path


@dataclass(frozen=True, slots=True)
class Level:
    """One root; it need not exist."""

    path: Path

    def open(self, namespace: str, name: str) -> Entry | None:
        """The entry in use, its files not looked at yet; None where there is none, or others may put one there. Makes it young."""
        folder = self.folder_of(namespace, name)
        try:
            for above in (folder.parent, folder.parent.parent, folder.parent.parent.parent):
                check_own(above.stat(), above)
        except OSError:
            return None
        for _ in range(2):  # the first may be replaced between opening and locking it
            try:
                descriptor = open_folder(folder)
            except OSError:
                return None
            if lock(descriptor, shared=True) and _is_at(descriptor, folder):
                with contextlib.suppress(OSError):  # a disk that we may only read
                    os.utime(folder)
                return Entry(folder, name, descriptor)
            os.close(descriptor)
        return None

    @contextlib.contextmanager
    def draft(self) -> Iterator[Draft]:
        """A folder to fill, on the disk of the root. Raises OSError. Removed afterwards unless it was moved in."""
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
        """Makes a draft an entry, in use; None where there is an entry of this name. Raises OSError."""
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
        """Removes an entry at once for those who look for it; its files once nobody uses them."""
        trash = self.path / _LAYOUT / "removed" / secrets.token_hex(8)
        with contextlib.suppress(OSError):
            self._make("removed")
            os.rename(folder, trash)
            self._remove_unused(trash)

    def evict(self, folder: Path) -> bool:
        """Removes an entry unless it is in use; gives whether it is gone."""
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
        """Moves a damaged entry where nobody looks for it; gives the place, None where it could not be moved."""
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
        """Holds the lock of an entry's shard; gives whether it is held. Never take a second one inside."""
        with self._hold(f"{namespace}-{shard(name)}", timeout) as held:
            yield held

    def can_lock(self) -> bool:
        """Whether locks can be made here."""
        try:
            return os.access(self._make("locks"), os.W_OK)
        except OSError:
            return False

    @contextlib.contextmanager
    def evicting(self) -> Iterator[bool]:
        """Holds the lock of whoever removes entries, if it is free now."""
        with self._hold("evict", 0) as held:
            yield held

    def folder_of(self, namespace: str, name: str) -> Path:
        """Where an entry is, if it is there."""
        return self.path / relative_folder(namespace, name)

    def counts_file(self, namespace: str) -> Path:
        """Where the counts of all processes are; its folder is made. Raises OSError."""
        return self._make("counts") / namespace

    def namespaces(self) -> list[str]:
        """Namespaces that have a folder."""
        try:
            names = [entry.name for entry in os.scandir(self.path / _LAYOUT) if entry.is_dir()]
        except OSError:
            return []
        return sorted(name for name in names if name not in _INTERNAL)

    def entries(self, namespace: str) -> Iterator[StoredEntry]:
        """All entries; those that vanish meanwhile are left out."""
        for folder in (self.path / _LAYOUT / namespace).glob("*/*"):
            with contextlib.suppress(OSError):
                yield StoredEntry(folder.stat().st_mtime, _bytes_in(folder), namespace, folder)

    def sweep(self, damaged_seconds: float = _DAMAGED_SECONDS) -> None:
        """Removes what killed writers left behind, and what was set aside a day ago."""
        for name, seconds in (("work", _ABANDONED_SECONDS), ("removed", 0), ("damaged", damaged_seconds)):
            for folder in (self.path / _LAYOUT / name).glob("*"):
                with contextlib.suppress(OSError):
                    if folder.stat().st_mtime <= time.time() - seconds:
                        self._remove_unused(folder)

    def is_private(self) -> bool:
        """True where only this user could have put files there: kernels and code are loaded from it."""
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
        with hold_file(folder / name, timeout) as held:
            yield held

    def _make(self, name: str) -> Path:
        """Makes a folder below the root, which nobody else may write. Modes hold for the last part of a path only, so each is made by
        itself. Raises OSError."""
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
    """Where an entry is below a root."""
    return f"{_LAYOUT}/{namespace}/{name[:2]}/{name}"


def shard(name: str) -> str:
    """The shard of an entry: locks are per shard, which bounds the number of open files."""
    return f"{int(name[:4], 16) % _SHARDS:02d}"


def _is_at(descriptor: int, folder: Path) -> bool:
    """Whether an open folder still has its name."""
    try:
        return os.path.samestat(os.fstat(descriptor), folder.stat(follow_symlinks=False))
    except OSError:
        return False


def _bytes_in(folder: Path | str) -> int:
    total = 0
    with os.scandir(folder) as found:
        for entry in found:
            if entry.is_dir(follow_symlinks=False):
                total += _bytes_in(entry.path)
            elif entry.is_file(follow_symlinks=False):
                total += entry.stat().st_size
    return total
