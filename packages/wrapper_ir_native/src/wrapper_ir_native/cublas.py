"""Finds cuBLAS where pip installs it, which the dynamic loader does not search."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

from wrapper_ir_native.structure import Json

_NAMES = ("libcublasLt.so.13", "libcublasLt.so.12")
_MATMULS = ("aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm")


def provide_cublas(facts: Mapping[str, Json]) -> None:
    """Loads cuBLASLt for a program on a CUDA device that calls matmuls, if it is installed.

    The library then finds it by name. A copy that the process or the dynamic loader has is preferred.
    """
    operators = (str(one["schema"]).partition("(")[0].partition(".")[0] for one in facts.get("operators", ()))
    if facts["device"] == "cpu" or not any(name in _MATMULS for name in operators):
        return
    for path in (*_NAMES, *installed_cublas(_folders())):
        try:
            ctypes.CDLL(str(path))
        except OSError:
            continue
        return


def installed_cublas(folders: Sequence[Path]) -> list[Path]:
    """Returns the files of cuBLASLt in folders of the `nvidia` packages, the latest version first."""
    return [path for name in _NAMES for folder in folders for path in sorted(folder.glob(f"*/lib/{name}"))]


def _folders() -> list[Path]:
    spec = find_spec("nvidia")
    return [Path(folder) for folder in (spec.submodule_search_locations if spec else None) or ()]
