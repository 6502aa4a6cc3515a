"""Guard pages around all of torch's CPU memory, for processes that run hostile programs: see `allocator.cpp`."""

from __future__ import annotations

import ctypes
import hashlib
import os
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

import torch
from torch.utils.cpp_extension import include_paths

_SOURCE = Path(__file__).with_name("allocator.cpp")
_LIMIT = 1 << 28
"""Largest block, in bytes: larger ones fail on every machine alike."""


def build() -> Path:
    """Returns the compiled allocator, by the hash of its source, of torch's version and of the flags.

    Built on a miss. Raises CalledProcessError if g++ fails.
    """
    libraries = Path(torch.__file__).parent / "lib"
    flags = [
        "-std=c++20", "-O2", "-fPIC", "-shared", "-w",
        f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}",
        *(f"-I{folder}" for folder in include_paths()),
        f"-L{libraries}", "-lc10", f"-Wl,-rpath,{libraries}",
    ]  # fmt: skip
    text = _SOURCE.read_bytes() + repr((torch.__version__, flags)).encode()
    folder = Path(tempfile.gettempdir(), f"wrapper_ir_guard_pages_{os.getuid()}")
    folder.mkdir(mode=0o700, exist_ok=True)
    library = folder / f"{hashlib.sha256(text).hexdigest()[:24]}.so"
    if not library.exists():
        made = library.with_suffix(f".{os.getpid()}")
        subprocess.run(["g++", "-o", str(made), "-x", "c++", str(_SOURCE), *flags], check=True)
        os.replace(made, library)  # another process may have built the same
    return library


@dataclass(frozen=True, slots=True)
class GuardPages:
    """The installed allocator."""

    library: ctypes.CDLL

    def damaged(self) -> int:
        """Returns the number of live blocks with writes around them."""
        return int(self.library.guard_damaged())

    def allocated(self) -> int:
        """Returns the number of allocated blocks so far."""
        return int(self.library.guard_allocated())


def install() -> GuardPages:
    """Makes it the allocator of all CPU tensors from now on.

    Only in a separate process, since it cannot be undone.
    """
    library = ctypes.CDLL(str(build()))
    library.guard_install.argtypes = [ctypes.c_size_t]
    library.guard_install.restype = None
    library.guard_damaged.restype = ctypes.c_size_t
    library.guard_allocated.restype = ctypes.c_uint64
    library.guard_install(_LIMIT)
    return GuardPages(library)
