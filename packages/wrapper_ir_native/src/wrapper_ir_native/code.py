"""Opens the code of a library from a checked copy in memory, which later writes to the file do not change."""

from __future__ import annotations

import _ctypes
import ctypes
import itertools
import os
from collections.abc import Iterator
from contextlib import contextmanager

_numbers = itertools.count()


@contextmanager
def code_path(code: bytes, name: str) -> Iterator[str]:
    """Yields a path of a copy of the code in memory.

    The path is different each time: the dynamic loader does not load a path twice.
    """
    descriptor = os.memfd_create(name[:200], os.MFD_CLOEXEC)
    try:
        rest = memoryview(code)
        while len(rest) > 0:
            rest = rest[os.write(descriptor, rest) :]
        yield _new_name(descriptor)
    finally:
        os.close(descriptor)


def _new_name(descriptor: int) -> str:
    """Returns a new path of a descriptor, although descriptors are reused: slashes encode a running
    number.

    The first ones distinguish it from paths of `cpp_wrapper.load`, which counts separately.
    """
    number = "".join("/." if bit == "1" else "//" for bit in f"{next(_numbers):b}")
    return f"/./proc{number}/self/fd/{descriptor}"


def open_code(code: bytes, name: str) -> ctypes.CDLL:
    """Loads code. Raises OSError if the dynamic loader refuses it."""
    with code_path(code, name) as path:
        return ctypes.CDLL(path)


def close_code(library: ctypes.CDLL) -> None:
    """Unloads code that nothing uses."""
    _ctypes.dlclose(library._handle)
