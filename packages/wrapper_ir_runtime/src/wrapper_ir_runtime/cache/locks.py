"""Locks that are released when their process ends: `flock` on open files and folders.

`flock` belongs to the open file, unlike `lockf`. It therefore also excludes threads of one process from each
other, and closing another descriptor of the same file does not release it. If a system or a file system has
no such locks, every process continues as if it were alone. Work may then be done twice, but entries remain
complete because they are renamed into place.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

if sys.platform != "win32":
    import fcntl

_POLL_SECONDS = 0.02


def lock(descriptor: int, *, shared: bool) -> bool:
    """Acquires the lock of an open file or folder if it is free; returns whether it is held."""
    if sys.platform == "win32":
        return True
    try:
        fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # ENOLCK, EOPNOTSUPP: a file system without locks
        return True
    return True


def open_folder(path: Path) -> int:
    """Returns a descriptor of a folder. Symbolic links are not followed. Raises OSError."""
    return os.open(path, os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0))


@contextlib.contextmanager
def hold_file(path: Path, timeout: float) -> Iterator[bool]:
    """Holds the exclusive lock of a file, which is created if missing; yields whether the lock is held.

    It is not held after a wait of `timeout` seconds, or if the file cannot be created.
    """
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError:
        yield False
        return
    try:
        yield _wait(descriptor, timeout)
    finally:
        _unlock(descriptor)
        os.close(descriptor)


def _wait(descriptor: int, timeout: float) -> bool:
    deadline = time.monotonic() + timeout
    while not lock(descriptor, shared=False):
        if time.monotonic() >= deadline:
            return False
        time.sleep(_POLL_SECONDS)
    return True


def _unlock(descriptor: int) -> None:
    """Releases the lock explicitly: a process forked meanwhile has a copy of the descriptor, which would keep
    it."""
    if sys.platform != "win32":
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_UN)
