"""The fake cuDNN, over memory of the host."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.cpp.cpp_gpu import compile_library


@dataclass(frozen=True)
class FakeCudnn:
    """The fake cuDNN. Libraries find it by the variable WIR_CUDNN: a torch for CUDA has loaded the real one."""

    library: Any  # ctypes gives no types to a library's functions
    path: Path
    folder: TemporaryDirectory[str]

    def count(self, what: str) -> int:
        """Returns how often a function was called; of `live`, the number of descriptions."""
        number: int = self.library.fake_count(what.encode())
        return number

    def refuse(self, what: str, times: int) -> None:
        """The next calls of a function are not supported."""
        self.library.fake_refuse(what.encode(), times)


@cache
def load_cudnn() -> FakeCudnn:
    """Builds and loads the fake cuDNN, once in a process."""
    kept = TemporaryDirectory()
    path = Path(kept.name) / "libfakecudnn.so"
    compile_library(Path(__file__).with_name("fake_cudnn.cpp"), path)
    library = ctypes.CDLL(str(path))
    library.fake_workspace.restype = library.fake_stream.restype = ctypes.c_uint64
    return FakeCudnn(library, path, kept)
