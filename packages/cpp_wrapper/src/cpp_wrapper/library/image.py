"""The file of a library: its code, then the constants, page-aligned, then what a loader must know, as JSON, and a footer.

    ELF | padding | constants | JSON | "WIRTAIL1", begin and size of the constants, size of the JSON (u64 each)

The dynamic loader reads the code only. The library maps the constants from its own file, or from where a loader says that the
file lies, so that processes and instances share them.
"""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from cpp_wrapper.errors import CacheError

if TYPE_CHECKING:
    from cpp_wrapper.sources.constants import Blob  # loaded, it loads the emitter

__all__ = ["PAGE", "Image", "read_image", "write_image"]

PAGE = 4096
_FOOTER = struct.Struct("<8sQQQ")
_MAGIC = b"WIRTAIL1"
_HINT = "build it with cpp_wrapper.build"


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """Where a library lies in a file: `nbytes` from `begin` on, of which the first `code_nbytes` are what the dynamic loader
    reads; `facts` is its metadata."""

    path: Path
    begin: int
    nbytes: int
    code_nbytes: int
    facts: Mapping[str, Any]  # Any: JSON


def write_image(file: BinaryIO, code: bytes, constants: Sequence[Blob], metadata: str) -> None:
    """Writes a library."""
    padding = -len(code) % PAGE
    file.write(code)
    file.write(bytes(padding))
    written = 0
    for blob in constants:
        file.write(bytes(blob.offset - written))
        file.write(blob.data)
        written = blob.offset + blob.nbytes
    text = metadata.encode()
    file.write(text)
    file.write(_FOOTER.pack(_MAGIC, len(code) + padding, written, len(text)))


def read_image(path: Path, begin: int = 0, nbytes: int | None = None) -> Image:
    """What a library says of itself; nothing of it is run. Raises CacheError CPP304 for another file."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END) - begin if nbytes is None else nbytes
            if size < _FOOTER.size:
                raise ValueError("it is too short")
            file.seek(begin + size - _FOOTER.size)
            magic, constants, constants_nbytes, length = _FOOTER.unpack(file.read(_FOOTER.size))
            if magic != _MAGIC or constants + constants_nbytes + length + _FOOTER.size != size:
                raise ValueError("it does not end as one")
            file.seek(begin + constants + constants_nbytes)
            facts: Mapping[str, Any] = json.loads(file.read(length))
    except (OSError, ValueError, struct.error) as error:
        raise CacheError("CPP304", f"{path} is not a library of this package: {error}", _HINT) from error
    return Image(path=path, begin=begin, nbytes=size, code_nbytes=constants, facts=facts)
