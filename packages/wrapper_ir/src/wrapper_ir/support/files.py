"""Reading and atomic writing of files that other processes may write.

Small files are copied, so that later changes have no effect. Large files are mapped. Replace a mapped file by
renaming, never write it in place: `MappedFile.check` detects changes before a call, but nothing detects
changes during one.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import mmap
import os
import stat
import tempfile
import weakref
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from io import RawIOBase
from pathlib import Path
from typing import BinaryIO, cast

from wrapper_ir.errors import ArtifactError

MAP_FROM = 1 << 26
"""Files of at least this many bytes are mapped, smaller ones are copied."""
MAX_TEXT = 1 << 30
"""Longer texts (in bytes) are refused."""


class MappedFile:
    """A mapped file in its state when opened.

    It keeps a descriptor, so the mapped bytes stay even if the file is deleted or its name refers to another
    file.
    """

    __slots__ = ("__weakref__", "_descriptor", "_digest", "_path", "_payload", "_seen")

    def __init__(self, path: str, descriptor: int) -> None:
        """Duplicates an open descriptor. Raises OSError."""
        self._path = path
        self._descriptor = os.dup(descriptor)
        weakref.finalize(self, os.close, self._descriptor)
        self._seen = os.fstat(self._descriptor)
        self._payload = memoryview(b"")
        self._digest = ""

    def __deepcopy__(self, memo: dict[int, object]) -> MappedFile:
        """Returns the object itself, because a copy would watch the same file."""
        return self

    def expect(self, payload: memoryview, digest: str) -> None:
        """Sets the sha256 (hex) of a part of the mapped bytes.

        With it, `check` distinguishes a changed name or owner from changed bytes with an old modification
        time.
        """
        self._payload, self._digest = payload, digest

    def check(self) -> None:
        """Raises ArtifactError WIR713 if the file was written or resized since it was opened."""
        now, before = os.fstat(self._descriptor), self._seen
        if now.st_ctime_ns == before.st_ctime_ns and now.st_size == before.st_size:
            return  # every write updates ctime, and no program can set it
        if (
            now.st_size != before.st_size
            or now.st_mtime_ns != before.st_mtime_ns
            or not self._is_as_expected()
        ):
            raise self._changed(now)
        self._seen = now

    def _is_as_expected(self) -> bool:
        return not self._digest or hashlib.sha256(self._payload).hexdigest() == self._digest

    def _changed(self, now: os.stat_result) -> ArtifactError:
        what = "written in place"
        if now.st_size != self._seen.st_size:
            what = f"{self._seen.st_size} bytes long and now has {now.st_size}"
        return ArtifactError(
            "WIR713",
            f"{self._path!r} was {what} while its constants are in use",
            hint="load it again, and replace such files by renaming another file to their name",
        )


def check_files(files: Sequence[MappedFile]) -> None:
    """Calls `MappedFile.check` of each file. Every engine calls this before it runs a program."""
    for file in files:
        file.check()


@dataclass(frozen=True, slots=True, eq=False)
class FileBytes:
    """A file's bytes at a page-aligned address; `file` is None unless they are mapped."""

    data: memoryview
    file: MappedFile | None = None


def opened(path: str | os.PathLike[str], buffering: int = -1) -> BinaryIO:
    """Opens a regular file for reading. Raises OSError, also for pipes, which may not end, and devices."""
    return open(path, "rb", buffering=buffering, opener=_open_regular)


def _open_regular(path: str, flags: int) -> int:
    descriptor = os.open(path, flags | os.O_NONBLOCK)  # opening a pipe waits for a writer
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "it is not a regular file", path)
    return descriptor


def read_text(path: str | os.PathLike[str], limit: int = MAX_TEXT) -> str:
    """Returns a regular file's text. Raises OSError; ValueError if not UTF-8, or over `limit` bytes."""
    with opened(path) as file:
        data = file.read(limit + 1)
    if len(data) > limit:
        raise ValueError(f"it has more than {limit} bytes")
    return data.decode()


def read_bytes(path: str | os.PathLike[str], map_from: int = MAP_FROM) -> FileBytes:
    """Returns the bytes of a file, mapped if it has `map_from` bytes or more, otherwise copied.

    Raises OSError, ValueError for an empty file, and ArtifactError WIR713 for one that is written meanwhile.
    """
    with cast(RawIOBase, opened(path, buffering=0)) as file:
        watch = MappedFile(os.fspath(path), file.fileno())
        size = os.fstat(file.fileno()).st_size
        if size >= max(map_from, 1):
            # With copy-on-write, a write through a tensor over the bytes changes only this process's page.
            mapped = mmap.mmap(file.fileno(), size, access=mmap.ACCESS_COPY)
            return FileBytes(memoryview(mapped).toreadonly(), watch)
        copy = mmap.mmap(-1, size)  # anonymous, page-aligned memory
        with memoryview(copy) as target:
            position = 0
            while count := file.readinto(target[position:]):
                position += count
        watch.check()
        return FileBytes(memoryview(copy).toreadonly())


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[str]:
    """Yields the name of a temporary file, which is renamed to `path` at the end, complete, synced, with
    default permissions.

    An older file stays unchanged until then, also if the block raises, and for processes that mapped it.
    Raises OSError.
    """
    target = Path(path)
    descriptor, temporary = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".tmp", dir=target.parent)
    os.close(descriptor)
    try:
        yield temporary
        _publish(temporary, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def _publish(temporary: str, target: Path) -> None:
    mask = os.umask(0)
    os.umask(mask)
    os.chmod(temporary, 0o666 & ~mask)
    with open(temporary, "rb") as file:
        os.fsync(file.fileno())
    os.replace(temporary, target)
    folder = os.open(target.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
