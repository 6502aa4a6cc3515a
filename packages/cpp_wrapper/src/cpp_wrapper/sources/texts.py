"""The C++ files that are the same in every library, and tables of C functions, by name."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

_PACKAGE = Path(__file__).parents[1]


def _texts(folder: Path) -> dict[str, str]:
    files = sorted(path for path in folder.iterdir() if path.is_file())
    return {path.name: path.read_text(encoding="utf-8") for path in files}


TEXTS = _texts(_PACKAGE / "sources" / "text")
"""Files of libraries over torch. Native libraries share those that name nothing of torch."""


@lru_cache
def native_texts() -> Mapping[str, str]:
    """Returns files of the native runtime, which replace others of the same name, and tables of operators.

    They are read with the first native library.
    """
    native = _PACKAGE / "native"
    return {**_texts(native), **_texts(native / "operators"), **_texts(native / "vectors")}


@lru_cache
def cuda_texts() -> Mapping[str, str]:
    """Returns files of the native runtime for CUDA devices, and tables of their operators."""
    return _texts(_PACKAGE / "native" / "cuda")
