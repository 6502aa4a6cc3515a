"""Makes Python callables of compiled kernels, through the launcher extension (`launcher.cpp`).

The launcher is built once for a compiler, a Python and a torch, and cached like the kernels.
"""

from __future__ import annotations

import hashlib
import importlib.machinery
import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Protocol, cast

from cpp_wrapper.errors import CacheError
from cpp_wrapper.kernels.compile import Unit, compile_library
from cpp_wrapper.kernels.location import Location
from cpp_wrapper.kernels.options import CppOptions
from cpp_wrapper.kernels.store import Content, Entry
from cpp_wrapper.kernels.toolchain import Toolchain, launcher_recipe
from cpp_wrapper.settings import Settings
from wrapper_ir.kernels import CppKernel, KernelParam, ParamKind
from wrapper_ir.protocols import LoadedKernel
from wrapper_ir.quoting import printable

__all__ = ["Launcher", "bind", "load_launcher"]

_SOURCE = Path(__file__).with_name("launcher.cpp")
_MODULE = "wrapper_ir_launcher"

ParamSpec = tuple[str, str, bool, bool]
"""Name, dtype, whether it is a pointer, whether the kernel writes through it."""


class Launcher(Protocol):
    """The launcher extension module."""

    bind: Callable[[str, str, str, str, tuple[ParamSpec, ...], bool], LoadedKernel]
    """`bind(library, symbol, name, doc, params, check)`; raises OSError for a library that cannot be opened."""

    dtypes: Callable[[], list[str]]
    """Names of the dtypes that tensors may have."""


def load_launcher(toolchain: Toolchain, settings: Settings, options: CppOptions) -> Launcher:
    """Builds the launcher if it is not in the cache, and imports it. Raises CompileError, CacheError, KernelError."""
    recipe = launcher_recipe(toolchain)
    text = _SOURCE.read_bytes()
    content = Content(hashlib.sha256(text).hexdigest(), f"PyInit_{_MODULE}", "launcher")
    location = Location(settings, recipe.fingerprint)
    for store in location.readable():
        if entry := store.find([content.key]).get(content.key):
            return _import(entry)
    store = location.writable()
    with store.lock("launcher", options.timeout), store.workspace() as work:
        if entry := store.find([content.key]).get(content.key):
            return _import(entry)
        source, output = work / "launcher.cpp", work / "launcher.so"
        source.write_bytes(text)
        compile_library(
            recipe, Unit(what="the launcher", source=source, output=output, code="CPP103"), options.timeout
        )
        return _import(store.publish(output, source, [content])[content.key])


def bind(launcher: Launcher, kernel: CppKernel, entry: Entry, options: CppOptions) -> LoadedKernel:
    """Opens the kernel's library and makes a callable. Raises OSError where the library cannot be opened."""
    params = tuple(
        (printable(p.name), p.dtype.value, p.kind is ParamKind.POINTER, p.access.writes)
        for p in kernel.params
    )
    name = printable(kernel.name)  # the launcher takes C strings
    doc = f"{name}({', '.join(map(_describe, kernel.params))})"
    return launcher.bind(str(entry.library), entry.symbol, name, doc, params, options.check_args)


def _describe(param: KernelParam) -> str:
    if param.kind is ParamKind.POINTER:
        return f"{param.access.value} {param.dtype.value}* {printable(param.name)}"
    return f"{param.dtype.value} {printable(param.name)}"


def _import(entry: Entry) -> Launcher:
    loader = importlib.machinery.ExtensionFileLoader(_MODULE, str(entry.library))
    spec = importlib.util.spec_from_loader(_MODULE, loader)
    assert spec is not None
    try:
        module = importlib.util.module_from_spec(spec)
        loader.exec_module(module)
    except ImportError as cause:
        raise CacheError(
            "CPP302",
            f"the launcher {entry.library} cannot be imported: {cause}",
            "delete the cache directory",
        ) from cause
    # cast: a module that was just compiled has no type information.
    return cast(Launcher, module)
