"""Builds a library from emitted sources.

Every translation unit is compiled on its own, in parallel, into an object that the cache keeps by content: a program that
differs in a kernel compiles that kernel. The library appears under its name once it is whole.
"""

from __future__ import annotations

import hashlib
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from cpp_wrapper._compat import torch_include_dirs
from cpp_wrapper.emit.program import KernelUnit, Sources
from cpp_wrapper.errors import CacheError
from cpp_wrapper.kernels.compile import Unit, compile_object, link_library
from cpp_wrapper.kernels.headers import header_hashes
from cpp_wrapper.kernels.options import CppOptions
from cpp_wrapper.kernels.toolchain import Recipe, find_toolchain, kernel_recipe, library_recipe
from cpp_wrapper.library.image import write_image
from cpp_wrapper.library.package import SUFFIX, write_package
from cpp_wrapper.settings import Settings, read_settings
from wrapper_ir.files import replacing
from wrapper_ir.store import Entry, Store, open_cache

__all__ = ["EXPORTS", "PARTS", "build_library"]

_OBJECT = "unit.o"
PARTS = ("program.cpp", "runtime.cpp", "steps.cpp", "container.cpp", "interface.cpp", "python.cpp")
"""Units beside those of kernels."""
EXPORTS = "{ global: AOTInductor*; wir_file; wir_python; wir_update; local: *; };\n"
"""What a library shows."""


@dataclass(frozen=True, slots=True)
class _Job:
    """One compiler run: the file's name, how it is compiled, and what the headers outside the sources are."""

    name: str
    recipe: Recipe
    headers: str = ""


def build_library(
    sources: Sources, path: Path, options: CppOptions, settings: Settings | None = None
) -> Path:
    """Compiles and links; `path` is replaced once the library is whole. Raises what `cpp_wrapper.build` raises."""
    settings = settings or read_settings()
    toolchain = find_toolchain(settings.compiler)
    library = library_recipe(toolchain, options)
    jobs = [_Job(name, library) for name in sources.files if name in PARTS]
    for unit in sources.units:
        recipe = kernel_recipe(toolchain, unit.flags, options)
        jobs.append(_Job(unit.name, recipe, _headers(unit)))
    store = open_cache(settings.cache).store("cpp-objects")
    with ThreadPoolExecutor(settings.jobs) as pool:
        entries = list(pool.map(lambda job: _compiled(job, sources, store, options), jobs))
    _link(sources, [entry.folder / _OBJECT for entry in entries], path, library, options)
    return path


def _headers(unit: KernelUnit) -> str:
    """The headers that kernels include from outside; raises CompileError CPP105 where one is missing."""
    return repr(sorted(header_hashes(unit.kernels, torch_include_dirs()).items()))


def _compiled(job: _Job, sources: Sources, store: Store, options: CppOptions) -> Entry:
    """The object of one unit, from the cache or compiled now."""
    own = [job.name] if job.name.startswith("kernels_") else [job.name, *_own_headers(sources)]
    parts = (job.recipe.fingerprint, job.headers, *(sources.files[name] for name in own))
    key = hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()

    def compile_into(folder: Path) -> None:
        for name in own:
            (folder / name).write_text(sources.files[name], encoding="utf-8")
        unit = Unit(what=job.name, source=folder / job.name, output=folder / _OBJECT, code="CPP106")
        compile_object(job.recipe, unit, options.timeout)

    return store.ensure(key, compile_into)


def _own_headers(sources: Sources) -> list[str]:
    return sorted(name for name in sources.files if name.endswith(".h"))


def _link(sources: Sources, objects: list[Path], path: Path, recipe: Recipe, options: CppOptions) -> None:
    """Links the objects, and writes the library with its constants, which it maps and processes share."""
    try:
        with tempfile.TemporaryDirectory(prefix="wir_library_") as text, replacing(path) as temporary:
            folder = Path(text)
            (folder / "exports.map").write_text(EXPORTS)
            unit = Unit(what="the library", output=folder / "code.so", code="CPP106")
            link_library(recipe, unit, objects, folder / "exports.map", options.timeout)
            code = unit.output.read_bytes()

            def write(file: BinaryIO) -> None:
                write_image(file, code, sources.constants, sources.metadata)

            if path.suffix == SUFFIX:
                write_package(Path(temporary), "cpu", write)
            else:
                with open(temporary, "wb") as file:
                    write(file)
    except OSError as error:
        raise CacheError("CPP303", f"the library cannot be written to {path}: {error}") from error
