"""Loads a definition's source text as a function of Triton.

Triton reads the source of its functions from files, so the text is stored in one, in the namespace
`triton-sources` of the cache on disk. Any number of processes may load the same file.
"""

from __future__ import annotations

import hashlib
import importlib.util
import traceback
from pathlib import Path
from typing import TYPE_CHECKING

from triton_runtime.errors import KernelError
from wrapper_ir_runtime.cache import Store, open_cache
from wrapper_ir_runtime.cache import read_settings as read_cache_settings

if TYPE_CHECKING:
    from types import ModuleType

    from triton.runtime.jit import JITFunction


def source_file(source: str, folder: Path) -> Path:
    """A file with exactly `source`, in the cache with root `folder`. Raises StoreError."""

    def write(entry: Path) -> None:
        (entry / _file_name(source)).write_bytes(source.encode())

    with _sources(folder).ensure(source, write) as entry:
        return entry.folder / _file_name(source)


def source_path(source: str, folder: Path) -> Path:
    """The path of `source_file`, whether or not the file exists."""
    place = _sources(folder).folder_of(source)
    # the store has a root
    assert place is not None
    return place / _file_name(source)


def _sources(folder: Path) -> Store:
    return open_cache(read_cache_settings().with_root(folder)).store("triton-sources")


def _file_name(source: str) -> str:
    return f"kernel_{hashlib.sha256(source.encode()).hexdigest()[:40]}.py"


def load_function(name: str, source: str, entry: str, folder: Path) -> JITFunction:
    """Loads the `@triton.jit` function `entry` from a kernel's source; `name` is the kernel's.

    Raises KernelError TR104 with the line if the module does not load, TR105 if it has no such function.
    """
    from triton.runtime.jit import JITFunction

    module = _load(name, source, source_file(source, folder))
    function = vars(module).get(entry)
    if isinstance(function, JITFunction):
        return function
    if function is None:
        what = f"has no function '{entry}'"
    else:
        what = f"has '{entry}' as {type(function).__module__}.{type(function).__qualname__}"
    raise KernelError(
        "TR105",
        f"kernel '{name}': its source {what}",
        "`entry` names a function decorated by `@triton.jit` alone: configs and heuristics belong to the "
        "definition",
    )


def load_checked(name: str, source: str, entry: str, folder: Path, order: tuple[str, ...]) -> JITFunction:
    """Loads a function whose parameters must be `order`; also raises KernelError TR102."""
    function = load_function(name, source, entry, folder)
    if tuple(function.arg_names) != order:
        parameters = ", ".join(function.arg_names)
        raise KernelError(
            "TR102",
            f"kernel '{name}': '{entry}' takes ({parameters}), the definition says ({', '.join(order)})",
        )
    return function


def _load(name: str, source: str, path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None  # a .py file has a loader
    module = importlib.util.module_from_spec(spec)
    try:
        # not through the loader: it would write bytecode, and trust it by the file's time and size
        exec(compile(source, str(path), "exec", dont_inherit=True), vars(module))
    # raised by the module's statements
    except Exception as error:
        raise KernelError(
            "TR104",
            f"kernel '{name}': its source does not load: {_place(error, source, path)}",
            f"the source is in {path}; its imports must be installed",
        ) from error
    return module


def _place(error: Exception, source: str, path: Path) -> str:
    """The error, with the number and text of its line in the source."""
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
