"""A definition's source text as a loaded function of Triton.

Triton reads the source of its functions from files, so the text is kept in one, in the namespace `triton-sources` of the
cache on disk: any number of processes may load the same file.
"""

from __future__ import annotations

import hashlib
import importlib.util
import traceback
from pathlib import Path
from typing import TYPE_CHECKING

from triton_runtime.errors import KernelError
from wrapper_ir import ir
from wrapper_ir_runtime.cache import Store, open_cache
from wrapper_ir_runtime.cache import read_settings as read_cache_settings

if TYPE_CHECKING:
    from types import ModuleType

    from triton.runtime.jit import JITFunction


def source_file(source: str, folder: Path) -> Path:
    """A file that holds exactly `source`, in the cache of which `folder` is the root. Raises StoreError."""

    def write(entry: Path) -> None:
        (entry / _file_name(source)).write_bytes(source.encode())

    with _sources(folder).ensure(source, write) as entry:
        return entry.folder / _file_name(source)


def source_path(source: str, folder: Path) -> Path:
    """Where `source_file` keeps a source, whether it is there or not."""
    place = _sources(folder).folder_of(source)
    assert place is not None  # there is a root
    return place / _file_name(source)


def _sources(folder: Path) -> Store:
    return open_cache(read_cache_settings().with_root(folder)).store("triton-sources")


def _file_name(source: str) -> str:
    return f"kernel_{hashlib.sha256(source.encode()).hexdigest()[:40]}.py"


def load_function(name: str, source: str, entry: str, folder: Path) -> JITFunction:
    """The `@triton.jit` function `entry` of a kernel's source, which runs as a Python module; `name` is the kernel's.

    Raises KernelError TR104 where the module does not load, with the line; TR105 where it has no such function.
    """
    from triton.runtime.jit import JITFunction

    module = _load(name, source, source_file(source, folder))
    found = vars(module).get(entry)
    if isinstance(found, JITFunction):
        return found
    if found is None:
        what = f"has no function '{entry}'"
    else:
        what = f"has '{entry}' as {type(found).__module__}.{type(found).__qualname__}"
    raise KernelError(
        "TR105",
        f"kernel '{name}': its source {what}",
        "`entry` names a function decorated by `@triton.jit` alone: configs and heuristics belong to the definition",
    )


def check_parameters(kernel: ir.TritonKernel, names: list[str]) -> None:
    """Holds the function's own parameters against the definition; raises KernelError TR102."""
    if tuple(names) != kernel.order:
        raise KernelError(
            "TR102",
            f"kernel '{kernel.name}': '{kernel.entry}' takes ({', '.join(names)}), the definition says "
            f"({', '.join(kernel.order)})",
        )


def _load(name: str, source: str, path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None  # a .py file has a loader
    module = importlib.util.module_from_spec(spec)
    try:
        # Not through the loader: it would write and trust bytecode by the file's time and size.
        exec(compile(source, str(path), "exec", dont_inherit=True), vars(module))
    except Exception as error:  # whatever the module's own statements raise
        raise KernelError(
            "TR104",
            f"kernel '{name}': its source does not load: {_place(error, source, path)}",
            f"the source is in {path}; what it imports has to be installed",
        ) from error
    return module


def _place(error: Exception, source: str, path: Path) -> str:
    """What went wrong, with the number and text of the line of the source where it did."""
    text = f"{type(error).__name__}: {error}"
    if isinstance(error, SyntaxError):
        line, text = error.lineno, f"{type(error).__name__}: {error.msg}"
    else:
        frames = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == str(path)]
        line = frames[-1] if frames else None
    lines = source.split("\n")
    if line is None or not 0 < line <= len(lines):
        return text
    return f"{text}\n  line {line}: {lines[line - 1].strip()}"
