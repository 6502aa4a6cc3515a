"""Finds plug-ins by entry points; nothing is imported before it is asked for."""

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
"""This project's packages that provide entry points."""


class _Groups(Protocol):
    """The entry points of all groups: of a class of its own before Python 3.12."""

    def select(self, *, group: str) -> EntryPoints: ...


def declared(group: str) -> EntryPoints:
    """The entry points of the group `wrapper_ir.<group>`. Those of all groups are read once, and again when a folder of `sys.path` has
    changed: whoever loads kernels asks, and reading takes 10 ms."""
    path = tuple((folder or os.getcwd(), _changed(folder or ".")) for folder in sys.path)
    return _installed(path).select(group=f"wrapper_ir.{group}")


def _changed(path: str) -> int | None:
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return None


@lru_cache(maxsize=16)
def _installed(path: tuple[tuple[str, int | None], ...]) -> _Groups:
    """What stands on `sys.path`, which is `path` with the times of the folders' last changes."""
    return entry_points()


def plugin_names(group: str) -> tuple[str, ...]:
    """Names declared in an entry-point group (`emitters`, `frontends`, `kernel_runtimes`, `machines`), sorted."""
    return tuple(sorted({e.name for e in declared(group)}))


def plugin(group: str, name: str) -> object:
    """What is registered under `name` in the entry-point group `wrapper_ir.<group>`; packages may have groups of their own.
    Raises PluginError WIR901, WIR902, WIR903."""
    full = f"wrapper_ir.{group}"
    found = tuple(declared(group).select(name=name))
    values = {e.value for e in found}
    if not found:
        known = ", ".join(plugin_names(group)) or "none"
        raise PluginError(
            "WIR901",
            f"no entry point {name!r} in group {full!r} (installed: {known})",
            hint=_how_to_get(group, name),
        )
    if len(values) > 1:
        raise PluginError(
            "WIR902", f"entry point {name!r} in group {full!r} is declared twice: {sorted(values)}"
        )
    try:
        return found[0].load()
    except Exception as error:
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        raise PluginError(
            "WIR903",
            f"entry point {found[0].value!r} ({full}) does not load: {error}",
            hint=f"pip install {missing.partition('.')[0]}" if missing else "",
        ) from error


def _how_to_get(group: str, name: str) -> str:
    package = _PACKAGES.get((group, name))
    if package is not None:
        return f"pip install {package}"
    return "install the package that provides it, or declare the entry point in yours"


def emitter(name: str) -> Emitter[Any]:  # Any: each emitter has its own result type
    """The emitter registered under `name`; raises PluginError WIR901, WIR902, WIR903."""
    return cast("Emitter[Any]", plugin("emitters", name))  # entry points are untyped


def emitter_names() -> tuple[str, ...]:
    """All installed emitters."""
    return plugin_names("emitters")


def frontend(name: str) -> Frontend:
    """The frontend registered under `name`; raises PluginError."""
    return cast("Frontend", plugin("frontends", name))  # entry points are untyped


def kernel_runtime(kind: str) -> KernelRuntime:
    """The runtime for kernels of this kind; raises PluginError."""
    return cast("KernelRuntime", plugin("kernel_runtimes", kind))  # entry points are untyped


def tuning_runtime(kind: str) -> KernelRuntime:
    """The same runtime, which tunes kernels at their first launches where it can."""
    found = kernel_runtime(kind)
    return found.with_tuning() if isinstance(found, TuningRuntime) else found


def machine(name: str) -> Machine[Any]:  # Any: each machine has its own tensor type
    """The machine registered under `name`; raises PluginError."""
    return cast("Machine[Any]", plugin("machines", name))  # entry points are untyped
