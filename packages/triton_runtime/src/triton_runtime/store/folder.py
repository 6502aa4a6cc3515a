"""A folder of entries on a local disk, which any number of processes use at once.

```
<folder>/1/<kind>/<2 letters>/<sha256 of the key's text>
           locks/<nn>.lock      held while a process makes an entry of that shard
           locks/evict.lock     held while a process removes old entries
```

An entry is written beside its place and renamed into it, so readers see all of it or nothing, whoever is killed when.
Nothing is flushed to the disk by `fsync`: a crash of the whole machine may leave entries incomplete. They do not fit
their hash then, and are made again, which costs less than flushing every one.
Any file may be deleted at any time. Reading an entry makes it young.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from filelock import BaseFileLock, FileLock, Timeout

from triton_runtime.store.entry import EntryKind, key_hash

__all__ = ["Folder", "entry_name"]

_LAYOUT = "1"
_STALE_SECONDS = 24 * 3600
_LOW_WATER = 0.8
_SHARDS = 64


def entry_name(kind: EntryKind, key: str) -> str:
    """Where an entry stands, relative to the root of a level."""
    name = key_hash(key)
    return f"{_LAYOUT}/{kind.value}/{name[:2]}/{name}"


@dataclass(frozen=True, slots=True)
class Folder:
    """One folder; `path` need not exist."""

    path: Path

    def read(self, kind: EntryKind, key: str) -> bytes | None:
        """The bytes of an entry, None where there is none or it cannot be read."""
        path = self.path / entry_name(kind, key)
        try:
            data = path.read_bytes()
        except OSError:
            return None
        with contextlib.suppress(OSError):  # a folder that we may only read
            os.utime(path)
        return data

    def write(self, kind: EntryKind, key: str, data: bytes) -> None:
        """Makes an entry, or replaces it. Raises OSError; the folder is then as it was."""
        path = self.path / entry_name(kind, key)
        temporary = path.with_name(f".{path.name}.{secrets.token_hex(6)}")
        self._make(path.parent)
        try:
            temporary.write_bytes(data)
            os.replace(temporary, path)
        except BaseException:
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)
            raise

    def remove(self, kind: EntryKind, key: str) -> None:
        """Removes an entry, if it is there and may be."""
        with contextlib.suppress(OSError):
            (self.path / entry_name(kind, key)).unlink(missing_ok=True)

    def shrink(self, limit_bytes: int) -> int:
        """Removes what was unused for longest until the folder is well under its limit, if it is over it, and what
        killed writers left behind a day ago; gives how many entries went. While another process does this, nothing."""
        with self._try_lock("evict") as mine:
            return self._shrink(limit_bytes) if mine else 0

    @contextlib.contextmanager
    def alone(self, key: str, timeout: float) -> Iterator[bool]:
        """Holds the lock of a key's shard; gives whether it is held. It is not after `timeout` seconds, and in a folder
        that cannot be written: then two processes may make the same entry, which costs time and nothing else.

        Who dies lets go of the lock. Never take a second one inside: shards are shared.
        """
        with self._try_lock(f"{int(key_hash(key)[:4], 16) % _SHARDS:02d}", timeout) as held:
            yield held

    def is_private(self) -> bool:
        """True where only this user could have put files there: kernels and code are loaded from it."""
        try:
            status = self.path.stat(follow_symlinks=False)
        except OSError:
            return False
        others = status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
        return stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and not others

    @contextlib.contextmanager
    def _try_lock(self, name: str, timeout: float = 0) -> Iterator[bool]:
        lock = self._acquire(name, timeout)
        try:
            yield lock is not None
        finally:
            if lock is not None:
                lock.release()

    def _acquire(self, name: str, timeout: float) -> BaseFileLock | None:
        folder = self.path / _LAYOUT / "locks"
        try:
            self._make(folder)
            lock = FileLock(folder / f"{name}.lock")
            lock.acquire(timeout=timeout)
        except (Timeout, OSError):
            return None
        return lock

    def _make(self, folder: Path) -> None:
        """Makes a folder below ours. Modes hold for the last part of a path only, so ours is made by itself."""
        if not folder.is_dir():
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            folder.mkdir(parents=True, exist_ok=True)

    def _files(self) -> Iterator[tuple[float, int, Path]]:
        """(last use, bytes, path) of every entry and temporary file; files that vanish meanwhile are left out."""
        for kind in EntryKind:
            for path in (self.path / _LAYOUT / kind.value).glob("*/*"):
                with contextlib.suppress(OSError):
                    found = path.stat()
                    yield found.st_mtime, found.st_size, path

    def _shrink(self, limit_bytes: int) -> int:
        files = sorted(self._files())
        total = sum(size for _, size, _ in files)
        target = limit_bytes * _LOW_WATER if total > limit_bytes else total
        stale = time.time() - _STALE_SECONDS
        gone = 0
        for used, size, path in files:
            temporary = path.name.startswith(".")  # young: somebody is writing it
            if (used < stale) if temporary else (total > target):
                with contextlib.suppress(OSError):
                    path.unlink()
                    total -= size
                    gone += not temporary
        return gone
