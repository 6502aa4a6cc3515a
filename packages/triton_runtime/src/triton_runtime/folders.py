"""Where files go: a folder of the cache that this process may write."""

from __future__ import annotations

import os
import stat
import tempfile
import warnings
from pathlib import Path

from triton_runtime.errors import KernelError
from triton_runtime.settings import Settings

__all__ = ["usable_folder"]

_ROOM = 256 << 10
"""Bytes: more than the source of a kernel takes."""


def usable_folder(settings: Settings, name: str) -> Path:
    """The folder `name` of the cache, made where it is missing; of the fallback's, with a warning, where it cannot be
    written. Raises KernelError TR108 where neither can.

    Files in it become code of this process, so a fallback that others could write to is none.
    """
    folder, fallback = settings.cache_dir / name, settings.fallback_dir / name
    problem = _problem(folder)
    if problem is None:
        return folder
    if (other := _problem(fallback)) is None and _is_private(fallback):
        warnings.warn(
            f"the cache {folder} cannot be written ({problem}); using {fallback}",
            RuntimeWarning,
            stacklevel=3,
        )
        return fallback
    raise KernelError(
        "TR108",
        f"neither {folder} ({problem}) nor {fallback} ({other or 'others may write to it'}) can be used",
        "name a folder of yours in WRAPPER_IR_CACHE_DIR",
    )


def _problem(folder: Path) -> OSError | None:
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(bytes(_ROOM))  # a full disk makes files, but none with contents
            file.flush()
            return None
    except OSError as problem:
        return problem


def _is_private(folder: Path) -> bool:
    status = folder.stat(follow_symlinks=False)
    others = status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and not others
