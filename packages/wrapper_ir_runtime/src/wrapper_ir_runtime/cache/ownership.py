"""Ownership of the cache: only this user and the superuser may write it.

Its contents become code of this process.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

_OTHERS = stat.S_IWGRP | stat.S_IWOTH


class ForeignOwnerError(OSError):
    """Other users could have written files there."""

    def __init__(self, path: Path | str) -> None:
        """Reports the path."""
        super().__init__(errno.EPERM, "it is not this user's alone", str(path))


def check_own(status: os.stat_result, path: Path | str) -> None:
    """Raises ForeignOwnerError for a file or folder of another user, or one that others may write."""
    if status.st_uid not in (os.getuid(), 0) or status.st_mode & _OTHERS:
        raise ForeignOwnerError(path)


def keep_own(path: Path, status: os.stat_result | None = None) -> None:
    """Removes the write permission of others, which a umask of 0 grants. Raises OSError."""
    current = path.stat() if status is None else status
    if current.st_mode & _OTHERS and current.st_uid == os.getuid():
        path.chmod(stat.S_IMODE(current.st_mode) & ~_OTHERS)
    else:
        check_own(current, path)


def make_own_folder(root: Path, parts: tuple[str, ...]) -> Path:
    """Creates folders below `root` that only this user may write, whatever the umask is; returns the last
    one.

    Raises OSError, and ForeignOwnerError if another user created one first.
    """
    folder = root
    for part in parts:
        folder = folder / part
        try:
            keep_own(folder)
        except FileNotFoundError:
            folder.mkdir(mode=0o755, exist_ok=True)
            keep_own(folder)
    return folder
