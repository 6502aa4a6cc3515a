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

import json
import os
import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from cpp_wrapper.errors import CacheError
from wrapper_ir.support.files import opened

if TYPE_CHECKING:
    from cpp_wrapper.sources.constants import Blob  # loaded, it loads the emitter

PAGE = 4096
_CHUNK = 1 << 20
_FOOTER = struct.Struct("<8sQQQ")
_CHECKSUM = struct.Struct("<I")
_OTHERS = 3
"""Number of checksums after those of the constants: code, metadata, other checksums with the footer."""
_MAGIC = b"WIRTAIL2"
_MAX_METADATA = 1 << 30
_HINT = "build it with cpp_wrapper.build"


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


def constant_checksums(constants: Sequence[Blob]) -> bytes:
    """Returns the checksum of each chunk of the constants' bytes, as stored in a file."""
    checksums: list[bytes] = []
    crc, free = 0, _CHUNK
    for piece in _pieces(constants):
        rest = piece
        while len(rest) > 0:
            head, rest = rest[:free], rest[free:]
            crc, free = zlib.crc32(head, crc), free - len(head)
            if free == 0:
                checksums.append(_CHECKSUM.pack(crc))
                crc, free = 0, _CHUNK
    return b"".join(checksums) + (_CHECKSUM.pack(crc) if free < _CHUNK else b"")


def _pieces(constants: Sequence[Blob]) -> Iterator[memoryview]:
    """Yields the constants' bytes in order, with the gaps that align them."""
    end = 0
    for blob in constants:
        yield memoryview(bytes(blob.offset - end))
        yield blob.data
        end = blob.offset + blob.nbytes


def write_image(file: BinaryIO, code: bytes, constants: Sequence[Blob], metadata: str) -> None:
    """Writes a library."""
    padded = code + bytes(-len(code) % PAGE)
    nbytes = constants[-1].offset + constants[-1].nbytes if constants else 0
    text = metadata.encode()
    with ThreadPoolExecutor(1) as pool:  # both let other threads run
        checksums = pool.submit(constant_checksums, constants)
        file.write(padded)
        for piece in _pieces(constants):
            file.write(piece)
    table = checksums.result() + _CHECKSUM.pack(zlib.crc32(padded)) + _CHECKSUM.pack(zlib.crc32(text))
    footer = _FOOTER.pack(_MAGIC, len(padded), nbytes, len(text))
    file.write(text)
    file.write(table + _CHECKSUM.pack(zlib.crc32(table + footer)) + footer)


def read_image(path: Path, begin: int = 0, nbytes: int | None = None) -> Image:
    """Reads the metadata of a library without running its code.

    Raises CacheError CPP304 for another kind of file and for a damaged one.
    """
    try:
        with opened(path) as file:
            size = file.seek(0, os.SEEK_END) - begin if nbytes is None else nbytes
            if size < _FOOTER.size:
                raise ValueError("it is too short")
            file.seek(begin + size - _FOOTER.size)
            footer = file.read(_FOOTER.size)
            magic, code, constants, length = _FOOTER.unpack(footer)
            table_nbytes = _CHECKSUM.size * (-(-constants // _CHUNK) + _OTHERS)
            whole = code + constants + length + table_nbytes + _FOOTER.size
            if magic != _MAGIC or whole != size or length > _MAX_METADATA:
                raise ValueError("it does not end as one")
            file.seek(begin + code + constants)
            text, table = file.read(length), file.read(table_nbytes)
            of_code, of_text, of_table = struct.unpack("<III", table[-_CHECKSUM.size * _OTHERS :])
            if zlib.crc32(table[: -_CHECKSUM.size] + footer) != of_table or zlib.crc32(text) != of_text:
                raise ValueError("it is damaged")
            facts: object = json.loads(text)
            if not isinstance(facts, dict):
                raise ValueError("its metadata is not an object")
    except (OSError, ValueError, RecursionError, struct.error) as error:
        raise CacheError("CPP304", f"{path} is not a library of this package: {error}", _HINT) from error
    return Image(path=path, begin=begin, nbytes=size, code_nbytes=code, code_checksum=of_code, facts=facts)


def read_code(image: Image) -> bytes:
    """Reads the code of a library. Raises CacheError CPP304 if it is damaged."""
    try:
        with opened(image.path) as file:
            file.seek(image.begin)
            code = file.read(image.code_nbytes)
    except OSError as error:
        raise CacheError("CPP304", f"{image.path} cannot be read: {error}", _HINT) from error
    if zlib.crc32(code) != image.code_checksum:
        raise CacheError("CPP304", f"{image.path} is damaged: its code does not fit its checksum", _HINT)
    return code
