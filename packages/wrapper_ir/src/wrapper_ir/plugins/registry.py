"""Registry of plug-ins by entry points, which are imported on first use."""

from __future__ import annotations

import os
import sys
from functools import lru_cache
from importlib.metadata import EntryPoints, entry_points
from typing import Any, Protocol, cast

from wrapper_ir.errors import PluginError
from wrapper_ir.plugins.protocols import Emitter, Frontend, KernelRuntime, Machine, TuningRuntime

_PACKAGES = {
    ("emitters", "fx"): "fx-converter",
    ("emitters", "python"): "py-wrapper",
    ("frontends", "inductor"): "inductor-frontend",
    ("kernel_runtimes", "cpp"): "cpp-wrapper",
    ("kernel_runtimes", "triton"): "triton-runtime",
    ("machines", "torch"): "py-wrapper",
}
"""This project's packages, by the group and name of their entry points."""


class _Groups(Protocol):
    """The entry points of all groups, whose class differs before Python 3.12."""

    def select(self, *, group: str) -> EntryPoints: ...


def declared(group: str) -> EntryPoints:
    """Returns the entry points of the group `wrapper_ir.<group>`.

    Entry points are cached until a folder of `sys.path` changes, because loading kernels calls this and
    reading takes 10 ms.
    """
    path = tuple((folder or os.getcwd(), _changed(folder or ".")) for folder in sys.path)
    return _installed(path).select(group=f"wrapper_ir.{group}")


def _changed(path: str) -> int | None:
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return None


@lru_cache(maxsize=16)
def _installed(path: tuple[tuple[str, int | None], ...]) -> _Groups:
    """Reads all entry points; `path` is `sys.path` with the folders' modification times, as a cache key."""
    return entry_points()


def plugin_names(group: str) -> tuple[str, ...]:
    """Returns the sorted names in a group (`emitters`, `frontends`, `kernel_runtimes`, `machines`)."""
    return tuple(sorted({e.name for e in declared(group)}))


def plugin(group: str, name: str) -> object:
    """Loads the plug-in `name` of the entry-point group `wrapper_ir.<group>`, of any package.

    Raises PluginError: WIR901 missing, WIR902 declared twice, WIR903 it does not load.
    """
    full = f"wrapper_ir.{group}"
    entries = tuple(declared(group).select(name=name))
    values = {e.value for e in entries}
    if not entries:
        names = ", ".join(plugin_names(group)) or "none"
        raise PluginError(
            "WIR901",
            f"no entry point {name!r} in group {full!r} (installed: {names})",
            hint=_how_to_get(group, name),
        )
    if len(values) > 1:
        raise PluginError(
            "WIR902", f"entry point {name!r} in group {full!r} is declared twice: {sorted(values)}"
        )
    try:
        return entries[0].load()
    except Exception as error:
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        raise PluginError(
            "WIR903",
            f"entry point {entries[0].value!r} ({full}) does not load: {error}",
            hint=f"pip install {missing.partition('.')[0]}" if missing else "",
        ) from error


def _how_to_get(group: str, name: str) -> str:
    package = _PACKAGES.get((group, name))
    if package is not None:
        return f"pip install {package}"
    return "install the package that provides it, or declare the entry point in yours"


def emitter(name: str) -> Emitter[Any]:  # Any: each emitter has its own result type
    """Loads the emitter `name`. Raises PluginError WIR901, WIR902, WIR903."""
    return cast("Emitter[Any]", plugin("emitters", name))  # entry points are untyped


def emitter_names() -> tuple[str, ...]:
    """Returns the names of all installed emitters."""
    return plugin_names("emitters")


def frontend(name: str) -> Frontend:
    """Loads the frontend `name`. Raises PluginError."""
    return cast("Frontend", plugin("frontends", name))  # entry points are untyped


def kernel_runtime(kind: str) -> KernelRuntime:
    """Loads the runtime for kernels of this kind. Raises PluginError."""
    return cast("KernelRuntime", plugin("kernel_runtimes", kind))  # entry points are untyped


def tuning_runtime(kind: str) -> KernelRuntime:
    """Loads the runtime for kernels of this kind, which tunes kernels at their first launches if it can."""
    runtime = kernel_runtime(kind)
    return runtime.with_tuning() if isinstance(runtime, TuningRuntime) else runtime


def machine(name: str) -> Machine[Any]:  # Any: each machine has its own tensor type
    """Loads the machine `name`. Raises PluginError."""
    return cast("Machine[Any]", plugin("machines", name))  # entry points are untyped
