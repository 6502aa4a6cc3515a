"""Folders of the C and C++ headers of native libraries."""

from __future__ import annotations

from pathlib import Path

_FOLDER = Path(__file__).parent


def include_path() -> Path:
    """Returns the folder for a compiler's `-I`: it has `wrapper_ir/model.h` and `wrapper_ir/model.hpp`."""
    return _FOLDER / "include"


def cmake_prefix_path() -> Path:
    """Returns the folder of the headers' CMake package, for `CMAKE_PREFIX_PATH`."""
    return _FOLDER / "cmake"
