"""Copies the code of graphs that Inductor compiled itself into a folder, and runs it from there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

from torch._inductor.codecache import PyCodeCache

from wrapper_ir_runtime.relocation import relocate_functions


def write_stock_code(folder: Path) -> tuple[Path, ...]:
    """Copies each wrapper that Inductor has loaded in this process into `folder`; returns the files.

    This includes wrappers from Inductor's caches. They run from the folder, so that breakpoints in the copy
    are hit.
    """
    return tuple(path for module in list(PyCodeCache.modules) for path in _moved(module, folder))


def _moved(module: ModuleType, folder: Path) -> Iterator[Path]:
    old = getattr(module, "__file__", None)
    if not isinstance(old, str) or not hasattr(module, "call"):
        return
    new = folder / Path(old).name
    if new == Path(old):
        return
    try:
        source = Path(old).read_text(encoding="utf-8")
    except OSError:  # the cache was cleared; the loaded code has no source file
        return
    folder.mkdir(parents=True, exist_ok=True)
    new.write_text(source, encoding="utf-8")
    relocate_functions(vars(module), source, old, str(new))
    yield new
