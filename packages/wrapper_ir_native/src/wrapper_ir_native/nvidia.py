"""Finds cuBLAS and cuDNN where pip installs them, which the dynamic loader does not search."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

from wrapper_ir_native.structure import Json

CUBLAS = ("libcublasLt.so.13", "libcublasLt.so.12")
CUDNN = ("libcudnn.so.9",)
_OPERATORS = {
    CUBLAS: frozenset({"aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm"}),
    CUDNN: frozenset({"aten::convolution", "aten::_convolution"}),
}
"""The operators for which a program opens each library."""


def provide_libraries(facts: Mapping[str, Json]) -> None:
    """Loads the libraries of NVIDIA that a program on a CUDA device calls, if they are installed.

    The program then finds them by name. A copy that the process or the dynamic loader has is preferred.
    """
    if facts["device"] == "cpu":
        return
    calls = {str(one["schema"]).partition("(")[0].partition(".")[0] for one in facts.get("operators", ())}
    for names, operators in _OPERATORS.items():
        if not calls.isdisjoint(operators):
            _load_one((*names, *find_installed(names, _folders())))


def _load_one(paths: Sequence[str | Path]) -> None:
    """Loads the first library that can be loaded."""
    for path in paths:
        try:
            ctypes.CDLL(str(path))
        except OSError:
            continue
        return


def find_installed(names: Sequence[str], folders: Sequence[Path]) -> list[Path]:
    """Returns the files of these names in folders of the `nvidia` packages, in the order of the names."""
    return [path for name in names for folder in folders for path in sorted(folder.glob(f"*/lib/{name}"))]


def _folders() -> list[Path]:
    spec = find_spec("nvidia")
    return [Path(folder) for folder in (spec.submodule_search_locations if spec else None) or ()]
