"""Which folder is written: the configured one, its stand-in, or one for this process alone; and which are read."""

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
    """The folders of a cache. What is loaded from them becomes code of this process, so one where others could have put
    files is not used where its name could be guessed: the fallback, and a root in a folder that everybody may write."""

    def __init__(self, settings: CacheSettings) -> None:
        self._own = Level(settings.folder) if settings.folder is not None else None
        self._above = _public_parents(settings)
        self._fallback = Level(settings.fallback) if settings.fallback is not None else None
        self._temporary: Level | None = None
        self._lock = threading.Lock()
        self._warned: set[str] = set()

    @property
    def own(self) -> Level | None:
        """The configured root, where it may be read."""
        return self._own if self._own is not None and not self._is_foreign(self._own) else None

    @property
    def root(self) -> Path:
        """The configured root, or its stand-in where there is none. Raises StoreError WIR252 where there is neither."""
        folders = (level.path for level in (self._own, self._fallback) if level is not None)
        if (root := next(folders, None)) is None:
            raise _nowhere([OSError(errno.ENOENT, "this user has neither a home nor a temporary folder")])
        return root

    def readable(self) -> list[Level]:
        """Roots to look in, the configured one first."""
        fallback = self._fallback if self._fallback is not None and self._fallback.is_private() else None
        return [level for level in (self.own, fallback, self._temporary) if level is not None]

    def write(self, attempt: Callable[[Level], T]) -> tuple[T, bool]:
        """The result of `attempt` with the first root where it raises no OSError, and whether that is the configured one.
        Warns once where it is not (WIR250, WIR251, WIR253); raises StoreError WIR252 where there is none."""
        problems: list[OSError] = []
        for level in self.writable(problems):
            try:
                result = attempt(level)
            except OSError as error:
                problems.append(error.with_traceback(None))  # whose frame would hold this list
                continue
            if problems:
                self._warn(problems[0], level.path)
            return result, not problems
        raise _nowhere(problems)

    def writable(self, problems: list[OSError] | None = None) -> Iterator[Level]:
        """Roots to write to, in order; what keeps one from being used is added to `problems`."""
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
            problems.append(error.with_traceback(None))  # whose frame would hold this list

    def _is_foreign(self, level: Level) -> bool:
        """Whether others could have put files into the root, or a folder above it, below one that everybody may write."""
        if self._above is None:
            return False
        # in this order: another thread may make the folder in between, and it is private then
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
    """What keeps the configured root from being written, and what is written in its stead."""
    why = problem.strerror or problem
    way = f"using {place}; set WRAPPER_IR_CACHE_DIR to a folder of your own"
    if problem.errno in _FULL:
        return StoreWarning("WIR250", f"the disk of the cache {folder} is full ({why}); {way}, or make room")
    if isinstance(problem, ForeignOwnerError):
        return StoreWarning("WIR253", f"the cache {folder} may have been written by others ({why}); {way}")
    return StoreWarning("WIR251", f"the cache {folder} cannot be written ({why}); {way}")


def _nowhere(problems: list[OSError]) -> StoreError:
    said = "; ".join(str(problem) for problem in problems)
    hint = "make room, or set WRAPPER_IR_CACHE_DIR to a folder that can be written"
    if any(problem.errno in _FULL for problem in problems):
        return StoreError("WIR250", f"the disk is full: no folder takes compiled code: {said}", hint=hint)
    return StoreError("WIR252", f"no folder takes compiled code: {said}", hint=hint)


def _public_parents(settings: CacheSettings) -> tuple[Path, ...] | None:
    """The folders between the root and the one above it that everybody may write; None where there is none."""
    root = settings.folder
    temporary = () if settings.fallback is None else (settings.fallback.parent,)
    for shared in (*map(Path, _OPEN_TO_ALL), *temporary):
        if root is not None and root != shared and root.is_relative_to(shared):
            return tuple(
                folder for folder in root.parents if folder != shared and folder.is_relative_to(shared)
            )
    return None


def _is_trusted(folder: Path) -> bool:
    """Whether only this user and the superuser may replace what is in a folder, or it is not there yet."""
    try:
        status = folder.stat(follow_symlinks=False)
    except OSError:
        return True
    open_to_all = status.st_mode & stat.S_IWOTH and not status.st_mode & stat.S_ISVTX
    return not stat.S_ISLNK(status.st_mode) and status.st_uid in (os.getuid(), 0) and not open_to_all


def _remove(folder: Path, owner: int) -> None:
    """Removes the folder of a process when that ends; a process that was forked from it leaves it alone."""
    if os.getpid() == owner:
        shutil.rmtree(folder, ignore_errors=True)
