"""Which folders the cache uses: the configured one, and a private temporary one where that cannot be written."""

from __future__ import annotations

import os
import stat
import tempfile
import warnings
from dataclasses import dataclass
from pathlib import Path

from cpp_wrapper.errors import CacheError
from cpp_wrapper.kernels.store import Store
from cpp_wrapper.settings import Settings

__all__ = ["Location"]


@dataclass(frozen=True, slots=True)
class Location:
    """Where to look for kernels built with one recipe (given by its fingerprint), and where to build them."""

    settings: Settings
    recipe: str

    def readable(self) -> tuple[Store, ...]:
        """Stores to look in, the configured one first."""
        own = self.settings.fallback_dir
        roots = [self.settings.cache_dir, *([own] if _is_private(own) else [])]
        return tuple(self._store(root) for root in roots)

    def writable(self) -> Store:
        """The store to build in. Warns where that is not the configured one; raises CacheError CPP301 for none."""
        configured = self.settings.cache_dir
        problem = _try_folder(configured)
        if problem is None:
            return self._store(configured)
        fallback = self.settings.fallback_dir
        message = f"the cache directory {configured} cannot be written ({problem})"
        if (second := _try_folder(fallback)) is not None or not _is_private(fallback):
            reason = second or "it is not this user's alone"
            raise CacheError(
                "CPP301", f"{message}, nor can {fallback} be used ({reason})", "set WRAPPER_IR_CACHE_DIR"
            ) from problem
        warnings.warn(
            f"[CPP301] {message}; building in {fallback} instead. Set WRAPPER_IR_CACHE_DIR to a folder of your own.",
            RuntimeWarning,
            stacklevel=2,
        )
        return self._store(fallback)

    def _store(self, root: Path) -> Store:
        return Store(root / "cpp" / self.recipe[:32])


def _try_folder(folder: Path) -> OSError | None:
    """What keeps us from writing into `folder`, made if absent (for this user alone); None: nothing."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return None
    except OSError as problem:
        return problem


def _is_private(folder: Path) -> bool:
    """True where only this user could have put files there: what we load from it becomes our own code."""
    try:
        status = folder.stat(follow_symlinks=False)
    except OSError:
        return False
    others = status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and not others
