"""Reads the files of libraries, in the format of `wrapper_ir_native.file`, with this package's errors."""

from __future__ import annotations

from pathlib import Path

from cpp_wrapper.errors import CacheError
from wrapper_ir_native import file
from wrapper_ir_native.file import PAGE, FormatError, Image

__all__ = ["PAGE", "Image", "read_code", "read_image"]

_HINT = "build it with cpp_wrapper.build"


def read_image(path: Path, begin: int = 0, nbytes: int | None = None) -> Image:
    """Reads the metadata of a library without running its code.

    Raises CacheError CPP304 for another kind of file and for a damaged one.
    """
    try:
        return file.read_image(path, begin, nbytes)
    except FormatError as error:
        raise CacheError("CPP304", str(error), _HINT) from error


def read_code(image: Image) -> bytes:
    """Reads the code of a library. Raises CacheError CPP304 if it is damaged."""
    try:
        return file.read_code(image)
    except FormatError as error:
        raise CacheError("CPP304", str(error), _HINT) from error
