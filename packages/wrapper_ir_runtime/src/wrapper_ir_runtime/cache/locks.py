"""Locks that end with their process: `flock` on open files and folders, free again once their holder is dead.

`flock` and not `lockf`: it belongs to the open file, so that it excludes the threads of one process from each other, too,
and closing another descriptor of the same file does not free it. Where a system or a file system has no such locks,
everybody goes on as if alone: work may be done twice, and entries stay whole because they are renamed into place.
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
    """Takes the lock of an open file or folder if it is free now; gives whether it is held."""
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
    """An open descriptor of a folder, never of what a symbolic link names. Raises OSError."""
    return os.open(path, os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0))


@contextlib.contextmanager
def hold_file(path: Path, timeout: float) -> Iterator[bool]:
    """Holds the exclusive lock of a file, made where it is missing; gives whether it is held, which it is not after
    `timeout` seconds, nor where the file cannot be made."""
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
    """Frees the lock for good: a process that was forked meanwhile has a copy of the descriptor, which would keep it."""
    if sys.platform != "win32":
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_UN)
