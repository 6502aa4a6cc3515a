"""Selects the folders to read, and the one to write: the configured root, its fallback, or one of this
process."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
import tempfile
import threading
import warnings
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from wrapper_ir.errors import StoreError, StoreWarning
from wrapper_ir_runtime.cache.level import Level
from wrapper_ir_runtime.cache.ownership import ForeignOwnerError
from wrapper_ir_runtime.cache.settings import CacheSettings

T = TypeVar("T")

_FULL = (errno.ENOSPC, errno.EDQUOT)
_OPEN_TO_ALL = ("/tmp", "/var/tmp", "/dev/shm")


class Places:
    """The folders of a cache.

    Their contents become code of this process. A folder whose name could be guessed is therefore not used if
    other users could have written files there. This concerns the fallback, and a root inside a folder that
    all users may write.
    """

    def __init__(self, settings: CacheSettings) -> None:
        self._own = Level(settings.folder) if settings.folder is not None else None
        self._above = _public_parents(settings)
        self._fallback = Level(settings.fallback) if settings.fallback is not None else None
        self._temporary: Level | None = None
        self._lock = threading.Lock()
        self._warned: set[str] = set()

    @property
    def own(self) -> Level | None:
        """The configured root, or None if it must not be read."""
        return self._own if self._own is not None and not self._is_foreign(self._own) else None

    @property
    def root(self) -> Path:
        """The configured root, or its fallback. Raises StoreError WIR252 if neither exists."""
        folders = (level.path for level in (self._own, self._fallback) if level is not None)
        if (root := next(folders, None)) is None:
            raise _nowhere([OSError(errno.ENOENT, "this user has neither a home nor a temporary folder")])
        return root

    def readable(self) -> list[Level]:
        """Returns the roots to read, the configured one first."""
        fallback = self._fallback if self._fallback is not None and self._fallback.is_private() else None
        return [level for level in (self.own, fallback, self._temporary) if level is not None]

    def write(self, attempt: Callable[[Level], T]) -> tuple[T, bool]:
        """Returns the result of `attempt` with the first root for which it raises no OSError.

        Also returns whether that is the configured root. Otherwise warns once (WIR250, WIR251, WIR253).
        Raises StoreError WIR252 if every root fails.
        """
        problems: list[OSError] = []
        for level in self.writable(problems):
            try:
                result = attempt(level)
            except OSError as error:
                problems.append(error.with_traceback(None))  # its frame would reference this list
                continue
            if problems:
                self._warn(problems[0], level.path)
            return result, not problems
        raise _nowhere(problems)

    def writable(self, problems: list[OSError] | None = None) -> Iterator[Level]:
        """Yields the roots to write, in order; reasons against a root are added to `problems`."""
        problems = [] if problems is None else problems
        if self._own is None:
            problems.append(OSError(errno.ENOENT, "this user has no home folder"))
        elif self._is_foreign(self._own):
            problems.append(ForeignOwnerError(self._own.path))
        else:
            yield self._own
        if self._fallback is not None:
            with contextlib.suppress(OSError):
                self._fallback.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            if self._fallback.is_private():
                yield self._fallback
            else:
                problems.append(ForeignOwnerError(self._fallback.path))
        try:
            yield self._of_this_process()
        except OSError as error:
            problems.append(error.with_traceback(None))  # its frame would reference this list

    def _is_foreign(self, level: Level) -> bool:
        """Returns whether other users could have written files to the root, or to its parents inside a public
        folder."""
        if self._above is None:
            return False
        # in this order: if another thread creates the folder in between, it is private
        is_private_or_absent = not level.path.is_dir() or level.is_private()
        return not (all(map(_is_trusted, self._above)) and is_private_or_absent)

    def _of_this_process(self) -> Level:
        with self._lock:
            if self._temporary is None:
                folder = Path(tempfile.mkdtemp(prefix="wrapper-ir-"))
                weakref.finalize(self, _remove, folder, os.getpid())
                self._temporary = Level(folder)
            return self._temporary

    def _warn(self, problem: OSError, place: Path) -> None:
        warning = _described(problem, None if self._own is None else self._own.path, place)
        with self._lock:
            if warning.code in self._warned:
                return
            self._warned.add(warning.code)
        warnings.warn(warning, stacklevel=2)


def _described(problem: OSError, folder: Path | None, place: Path) -> StoreWarning:
    """Returns the warning about the configured root, and which folder is written instead."""
    why = problem.strerror or problem
    way = f"using {place}; set WRAPPER_IR_CACHE_DIR to a folder of your own"
    if problem.errno in _FULL:
        return StoreWarning("WIR250", f"the disk of the cache {folder} is full ({why}); {way}, or make room")
    if isinstance(problem, ForeignOwnerError):
        return StoreWarning("WIR253", f"the cache {folder} may have been written by others ({why}); {way}")
    return StoreWarning("WIR251", f"the cache {folder} cannot be written ({why}); {way}")


def _nowhere(problems: list[OSError]) -> StoreError:
    details = "; ".join(str(problem) for problem in problems)
    hint = "make room, or set WRAPPER_IR_CACHE_DIR to a folder that can be written"
    if any(problem.errno in _FULL for problem in problems):
        return StoreError("WIR250", f"the disk is full: no folder takes compiled code: {details}", hint=hint)
    return StoreError("WIR252", f"no folder takes compiled code: {details}", hint=hint)


def _public_parents(settings: CacheSettings) -> tuple[Path, ...] | None:
    """Returns the folders between the root and a public folder above it; None if no public folder is
    above."""
    root = settings.folder
    temporary = () if settings.fallback is None else (settings.fallback.parent,)
    for shared in (*map(Path, _OPEN_TO_ALL), *temporary):
        if root is not None and root != shared and root.is_relative_to(shared):
            return tuple(
                folder for folder in root.parents if folder != shared and folder.is_relative_to(shared)
            )
    return None


def _is_trusted(folder: Path) -> bool:
    """Returns whether only this user and the superuser may replace contents of a folder, or it does not
    exist."""
    try:
        status = folder.stat(follow_symlinks=False)
    except OSError:
        return True
    open_to_all = status.st_mode & stat.S_IWOTH and not status.st_mode & stat.S_ISVTX
    return not stat.S_ISLNK(status.st_mode) and status.st_uid in (os.getuid(), 0) and not open_to_all


def _remove(folder: Path, owner: int) -> None:
    """Removes the folder of a process when it ends. Processes forked from it do not."""
    if os.getpid() == owner:
        shutil.rmtree(folder, ignore_errors=True)
