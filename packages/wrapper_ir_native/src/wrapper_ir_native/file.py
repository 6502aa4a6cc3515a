"""The file format of a library: code, page-aligned constants, metadata for loaders as JSON, checksums, a
footer.

    ELF | padding | constants | JSON | checksums | footer

The footer is "WIRTAIL2", then begin and size of the constants, and the size of the JSON (u64 each). Checksums
are CRC-32, as in zip archives: of each MiB of constants, of the code with its padding, of the JSON, and of
the preceding checksums with the footer. They detect damage. The dynamic loader reads the code only. The
library reads the constants from its file, or from the path that a loader sets: it copies small ones and maps
large ones, which processes share.
"""

from __future__ import annotations

import errno
import json
import os
import stat
import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

PAGE = 4096
CHUNK = 1 << 20
"""Bytes of constants that share a checksum."""
FOOTER = struct.Struct("<8sQQQ")
CHECKSUM = struct.Struct("<I")
MAGIC = b"WIRTAIL2"
WEIGHTS = "WIRWEIGHTS1 "
"""Begin of a file of constants beside a library; their SHA-256 (hex) follows, in place of code."""
_OTHERS = 3
"""Number of checksums after those of the constants: code, metadata, other checksums with the footer."""
_MAX_METADATA = 1 << 30


class FormatError(ValueError):
    """A file is not a library, or is damaged. The message begins with the path."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """The location of a library in a file: `nbytes` bytes from `begin` on.

    The dynamic loader reads the first `code_nbytes`, with checksum `code_checksum`. `facts` is the metadata.
    """

    path: Path
    begin: int
    nbytes: int
    code_nbytes: int
    code_checksum: int
    facts: Mapping[str, Any]  # Any: JSON


def opened(path: Path) -> BinaryIO:
    """Opens a regular file. Raises OSError, also for pipes, which may not end, and devices."""
    return open(path, "rb", opener=_open_regular)


def _open_regular(path: str, flags: int) -> int:
    descriptor = os.open(path, flags | os.O_NONBLOCK)  # opening a pipe waits for a writer
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "it is not a regular file", path)
    return descriptor


def read_image(path: Path, begin: int = 0, nbytes: int | None = None) -> Image:
    """Reads the metadata of a library without running its code.

    Raises FormatError for another kind of file and for a damaged one.
    """
    try:
        with opened(path) as file:
            size = file.seek(0, os.SEEK_END) - begin if nbytes is None else nbytes
            if size < FOOTER.size:
                raise ValueError("it is too short")
            file.seek(begin + size - FOOTER.size)
            footer = file.read(FOOTER.size)
            magic, code, constants, length = FOOTER.unpack(footer)
            table_nbytes = CHECKSUM.size * (-(-constants // CHUNK) + _OTHERS)
            whole = code + constants + length + table_nbytes + FOOTER.size
            if magic != MAGIC or whole != size or length > _MAX_METADATA:
                raise ValueError("it does not end as one")
            file.seek(begin + code + constants)
            text, table = file.read(length), file.read(table_nbytes)
            of_code, of_text, of_table = struct.unpack("<III", table[-CHECKSUM.size * _OTHERS :])
            if zlib.crc32(table[: -CHECKSUM.size] + footer) != of_table or zlib.crc32(text) != of_text:
                raise ValueError("it is damaged")
            facts: object = json.loads(text)
            if not isinstance(facts, dict):
                raise ValueError("its metadata is not an object")
    except (OSError, ValueError, RecursionError, struct.error) as error:
        raise FormatError(f"{path} is not a library of this package: {error}") from error
    return Image(path=path, begin=begin, nbytes=size, code_nbytes=code, code_checksum=of_code, facts=facts)


def read_code(image: Image) -> bytes:
    """Reads the code of a library. Raises FormatError if it is damaged."""
    try:
        with opened(image.path) as file:
            file.seek(image.begin)
            code = file.read(image.code_nbytes)
    except OSError as error:
        raise FormatError(f"{image.path} cannot be read: {error}") from error
    if zlib.crc32(code) != image.code_checksum:
        raise FormatError(f"{image.path} is damaged: its code does not fit its checksum")
    return code
