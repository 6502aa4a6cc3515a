"""Moves compiled modules to files in another folder, so that breakpoints in those files work."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

from py_wrapper.errors import CacheError
from wrapper_ir.plugins.protocols import CompiledProgram
from wrapper_ir_runtime.kernel_files import TABLE
from wrapper_ir_runtime.relocation import relocate_functions


def relocate(program: CompiledProgram, folder: str | Path) -> tuple[Path, ...]:
    """Copies the module of a callable of `compile`, with its kernels, into `folder`, and makes its code refer
    to the copy. Returns the files, the module first. Raises CacheError PY203 if the module's file was removed
    or `folder` cannot be written."""
    scope = getattr(program.boxed, "__globals__", {})  # it is a function of the module
    old = Path(scope.get("__file__", ""))
    target = Path(folder)
    try:
        source = old.read_text(encoding="utf-8")
        new = target / old.name
        files = [new]
        if new != old:
            files += _copied(old, target)
    except OSError as error:
        raise CacheError("PY203", f"the module {old} cannot be moved to {target}: {error}") from error
    relocate_functions(scope, source, str(old), str(new))
    scope["__file__"] = str(new)  # errors read their source line from it
    return tuple(files)


def _copied(module: Path, target: Path) -> Iterator[Path]:
    """Copies the module and the kernels below its folder; yields the files except the module's."""
    target.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(module, target / module.name)
    for path in (module.parent / TABLE, *sorted(module.parent.glob("kernels/*"))):
        if path.is_file():
            new = target / path.relative_to(module.parent)
            new.parent.mkdir(exist_ok=True)
            shutil.copyfile(path, new)
            yield new
