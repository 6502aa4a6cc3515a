"""Builds a library from emitted sources.

Every translation unit is compiled on its own, in parallel, into an object that the cache keeps by content: a program that
differs in a kernel compiles that kernel. The library appears under its name once it is whole.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO

from cpp_wrapper._compat import torch_include_dirs
from cpp_wrapper.errors import CacheError
from cpp_wrapper.kernels.build import common_header, reads_common_header
from cpp_wrapper.kernels.compile import Unit, compile_object, link_library
from cpp_wrapper.kernels.headers import header_hashes
from cpp_wrapper.kernels.libraries import HEADER, Libraries
from cpp_wrapper.kernels.options import CppOptions
from cpp_wrapper.kernels.toolchain import Recipe, find_toolchain, kernel_recipe, library_recipe
from cpp_wrapper.library.image import write_image
from cpp_wrapper.library.package import SUFFIX, write_package
from cpp_wrapper.settings import Settings, read_settings
from cpp_wrapper.sources.program import KernelUnit, Sources
from wrapper_ir.files import replacing
from wrapper_ir.kernels import CppKernel
from wrapper_ir.store import Cache, Entry, Store, open_cache

__all__ = ["EXPORTS", "PARTS", "Progress", "build_library"]

_OBJECT, _CODE = "unit.o", "code.so"
PARTS = ("program.cpp", "runtime.cpp", "steps.cpp", "container.cpp", "interface.cpp", "python.cpp")
"""Units beside those of kernels."""
EXPORTS = "{ global: AOTInductor*; wir_file; wir_python; wir_update; local: *; };\n"
"""What a library shows."""


@dataclass(frozen=True, slots=True)
class _Job:
    """One compiler run: the file's name, how it is compiled, what the headers outside the sources are, and the kernels in it."""

    name: str
    recipe: Recipe
    headers: str = ""
    kernels: tuple[CppKernel, ...] = ()


Progress = Callable[[str, float], None]
"""Is told of each part of a library once it is there, and the seconds that it took; it may be called by several threads."""


def build_library(
    sources: Sources,
    path: Path,
    options: CppOptions,
    settings: Settings | None = None,
    progress: Progress | None = None,
) -> Path:
    """Compiles and links; `path` is replaced once the library is whole. Raises what `cpp_wrapper.build` raises."""
    settings = settings or read_settings()
    toolchain, cache = find_toolchain(settings.compiler), open_cache(settings.cache)
    build = _Build(sources, cache, options, progress or (lambda name, seconds: None))
    library = library_recipe(toolchain, options)
    jobs = [_Job(name, library) for name in sources.files if name in PARTS]
    for unit in sources.units:
        recipe = kernel_recipe(toolchain, unit.flags, options)
        jobs.append(_Job(unit.name, recipe, _headers(unit), unit.kernels))
    # program and kernels take longest, so they begin first
    jobs.sort(key=lambda job: (job.name != "program.cpp", not job.kernels))
    with ThreadPoolExecutor(settings.jobs) as pool:
        entries = list(pool.map(build.compile, jobs))
    code = build.link(library, entries)
    with _timed("the file", build.progress):
        _write(sources, code.folder / _CODE, path)
    return path


def _headers(unit: KernelUnit) -> str:
    """The headers that kernels include from outside; raises CompileError CPP105 where one is missing."""
    return repr(sorted(header_hashes(unit.kernels, torch_include_dirs()).items()))


@contextmanager
def _timed(name: str, progress: Progress) -> Iterator[None]:
    start = time.perf_counter()
    yield
    progress(name, time.perf_counter() - start)


@dataclass(frozen=True, slots=True)
class _Build:
    """One build: objects and code come from the cache, or are made now and put there."""

    sources: Sources
    cache: Cache
    options: CppOptions
    progress: Progress

    def compile(self, job: _Job) -> Entry:
        """The object of one unit."""
        files = self.sources.files
        own = [job.name] if job.kernels else [job.name, *_own_headers(self.sources)]
        key = _key(job.recipe.fingerprint, job.headers, *(files[name] for name in own))

        def compile_into(folder: Path) -> None:
            for name in own:
                (folder / name).write_text(files[name], encoding="utf-8")
            unit = Unit(what=job.name, source=folder / job.name, output=folder / _OBJECT, code="CPP106")
            with self._header(job) as header:
                compile_object(job.recipe, replace(unit, header=header), self.options.timeout)

        with _timed(job.name, self.progress):
            return self._store.ensure(key, compile_into)

    @contextmanager
    def _header(self, job: _Job) -> Iterator[Path | None]:
        """The precompiled header of kernels, which kernels that are compiled when they are loaded share."""
        if not any(reads_common_header(kernel.source) for kernel in job.kernels):
            yield None
            return
        libraries = Libraries(self.cache, job.recipe.fingerprint)
        entry = common_header(job.recipe, libraries, self.options)
        libraries.count(1)
        if entry is None:
            yield None
            return
        with entry:
            yield entry.folder / HEADER

    def link(self, recipe: Recipe, objects: Sequence[Entry]) -> Entry:
        """The code of a library, without constants."""
        key = _key("link", recipe.fingerprint, EXPORTS, *(entry.name for entry in objects))

        def link_into(folder: Path) -> None:
            (folder / "exports.map").write_text(EXPORTS)
            unit = Unit(what="the library", output=folder / _CODE, code="CPP106")
            paths = [entry.folder / _OBJECT for entry in objects]
            link_library(recipe, unit, paths, folder / "exports.map", self.options.timeout)

        with _timed("the library's code", self.progress):
            return self._store.ensure(key, link_into)

    @property
    def _store(self) -> Store:
        return self.cache.store("cpp-objects")


def _key(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()


def _own_headers(sources: Sources) -> list[str]:
    return sorted(name for name in sources.files if name.endswith(".h"))


def _write(sources: Sources, code: Path, path: Path) -> None:
    """Writes the library, or the package, with its constants, which it maps and processes share."""

    def write(file: BinaryIO) -> None:
        write_image(file, code.read_bytes(), sources.constants, sources.metadata)

    try:
        with replacing(path) as temporary:
            if path.suffix == SUFFIX:
                write_package(Path(temporary), "cpu", write)
            else:
                with open(temporary, "wb") as file:
                    write(file)
    except OSError as error:
        raise CacheError("CPP303", f"the library cannot be written to {path}: {error}") from error
