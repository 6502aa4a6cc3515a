"""Creates Python callables of compiled kernels through the launcher extension (`launcher.cpp`).

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
from cpp_wrapper.kernels.libraries import BuiltKernel
from cpp_wrapper.kernels.options import CppOptions
from cpp_wrapper.kernels.toolchain import Toolchain, launcher_recipe
from wrapper_ir import ir
from wrapper_ir.plugins.protocols import LoadedKernel
from wrapper_ir.support.quoting import printable
from wrapper_ir_runtime.cache import Cache

_SOURCES = tuple(Path(__file__).with_name(name) for name in ("launcher.cpp", "launcher_arguments.h"))
_MODULE = "wrapper_ir_launcher"
_LIBRARY = "launcher.so"

ParamSpec = tuple[str, str, bool, bool]
"""Name, dtype, whether it is a pointer, whether the kernel writes through it."""


class Launcher(Protocol):
    """The launcher extension module."""

    bind: Callable[[str, str, str, str, tuple[ParamSpec, ...], bool], LoadedKernel]
    """`bind(library, symbol, name, doc, params, check)`; raises OSError for a library that cannot be
    opened.
    """

    holds: Callable[..., bool]
    """Returns whether the storage of each tensor contains all of its elements."""

    dtypes: Callable[[], list[str]]
    """Names of the dtypes that tensors may have."""


def load_launcher(toolchain: Toolchain, cache: Cache, options: CppOptions) -> Launcher:
    """Imports the launcher, and builds it first if the cache does not have it.

    Raises CompileError, CacheError, KernelError, StoreError.
    """
    recipe = launcher_recipe(toolchain)
    texts = {path.name: path.read_bytes() for path in _SOURCES}

    def compile_into(folder: Path) -> None:
        for name, text in texts.items():
            (folder / name).write_bytes(text)
        source = folder / _SOURCES[0].name
        unit = Unit(what="the launcher", source=source, output=folder / _LIBRARY, code="CPP103")
        compile_library(recipe, unit, options.timeout)

    key = f"cpp {recipe.fingerprint} {hashlib.sha256(b''.join(texts.values())).hexdigest()}"
    with cache.store("launchers").ensure(key, compile_into) as entry:
        return _import(entry.folder / _LIBRARY)


def bind(launcher: Launcher, kernel: ir.CppKernel, binary: BuiltKernel, options: CppOptions) -> LoadedKernel:
    """Opens the kernel's library and returns a callable. Raises OSError if the library cannot be opened."""
    params = tuple(
        (printable(p.name), p.dtype.value, p.kind is ir.ParamKind.POINTER, p.access.writes)
        for p in kernel.params
    )
    name = printable(kernel.name)  # the launcher takes C strings
    doc = f"{name}({', '.join(map(_describe, kernel.params))})"
    return launcher.bind(str(binary.library), binary.symbol, name, doc, params, options.check_args)


def _describe(param: ir.KernelParam) -> str:
    if param.kind is ir.ParamKind.POINTER:
        return f"{param.access.value} {param.dtype.value}* {printable(param.name)}"
    return f"{param.dtype.value} {printable(param.name)}"


def _import(library: Path) -> Launcher:
    loader = importlib.machinery.ExtensionFileLoader(_MODULE, str(library))
    spec = importlib.util.spec_from_loader(_MODULE, loader)
    assert spec is not None
    try:
        module = importlib.util.module_from_spec(spec)
        loader.exec_module(module)
    except ImportError as cause:
        raise CacheError(
            "CPP302", f"the launcher {library} cannot be imported: {cause}", "run `wir cache clear launchers`"
        ) from cause
    # cast: the compiled module has no type information.
    return cast(Launcher, module)
