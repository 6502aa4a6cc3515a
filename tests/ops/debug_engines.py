"""An artifact in every engine, and the output of each on standard output and into a folder."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

import cpp_wrapper
import fx_converter
import py_wrapper
from cpp_wrapper import CppOptions
from tests.common.compare import clone_tree
from wrapper_ir.artifact import Artifact
from wrapper_ir_runtime.interp import call

Said = tuple[list[str], Mapping[str, bytes]]
"""Lines, and files by name."""


# Any in this file: arguments and results of models
def engines(artifact: Artifact, folder: Path, *, cpp: bool = True) -> Mapping[str, Callable[..., Any]]:
    """Functions of the model's own arguments, by name of the engine."""
    found: dict[str, Callable[..., Any]] = {
        "interpreter": lambda *args, **kwargs: call(artifact, py_wrapper.TORCH_MACHINE, args, kwargs),
        "python": py_wrapper.compile(artifact),
        "fx": fx_converter.convert(artifact),
    }
    if cpp:
        library = cpp_wrapper.build(artifact, folder / "model.so", CppOptions(opt_level=0))
        found["cpp"] = cpp_wrapper.load(library)
    return found


def observe(
    artifact: Artifact,
    calls: list[tuple[tuple[Any, ...], dict[str, Any]]],
    folder: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    *,
    cpp: bool = True,
) -> Mapping[str, Said]:
    """Returns the output of each engine in these calls, with a separate working directory."""
    said = {}
    for name, function in engines(artifact, folder, cpp=cpp).items():
        own = folder / name
        own.mkdir()
        monkeypatch.chdir(own)
        capfd.readouterr()
        for args, kwargs in calls:
            function(*clone_tree(args), **clone_tree(kwargs))
        lines = capfd.readouterr().out.splitlines()
        files = {str(p.relative_to(own)): p.read_bytes() for p in own.rglob("*") if p.is_file()}
        said[name] = (lines, files)
    monkeypatch.chdir(os.path.dirname(folder))
    return said
