"""Who may write what is in the cache: only this user and the superuser. What is loaded from it becomes code of this process."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

_OTHERS = stat.S_IWGRP | stat.S_IWOTH


class ForeignOwnerError(OSError):
    """Others could have put files there."""

    def __init__(self, path: Path | str) -> None:
        """Names the path."""
        super().__init__(errno.EPERM, "it is not this user's alone", str(path))


def check_own(status: os.stat_result, path: Path | str) -> None:
    """Raises ForeignOwnerError for a file or folder that belongs to another user, or that others may write."""
    if status.st_uid not in (os.getuid(), 0) or status.st_mode & _OTHERS:
        raise ForeignOwnerError(path)


def keep_own(path: Path, status: os.stat_result | None = None) -> None:
    """Takes the right to write a file or folder from others, who get it from a umask of 0. Raises OSError."""
    found = path.stat() if status is None else status
    if found.st_mode & _OTHERS and found.st_uid == os.getuid():
        path.chmod(stat.S_IMODE(found.st_mode) & ~_OTHERS)
    else:
        check_own(found, path)


def make_own_folder(root: Path, parts: tuple[str, ...]) -> Path:
    """Makes folders below `root`, each writable by this user alone whatever the umask is, and gives the last one. Raises
    OSError, and ForeignOwnerError where another user was first."""
    folder = root
    for part in parts:
        folder = folder / part
        try:
            keep_own(folder)
        except FileNotFoundError:
            folder.mkdir(mode=0o755, exist_ok=True)
            keep_own(folder)
    return folder
