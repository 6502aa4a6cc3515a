"""Builds a library from emitted sources.

Translation units are compiled in parallel into objects, which the cache stores by content: a program that
differs in one kernel compiles only that kernel. The library appears under its name when it is complete.
"""

from __future__ import annotations

import hashlib
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO

from cpp_wrapper._compat import torch_include_dirs
from cpp_wrapper.errors import CacheError, EmitError
from cpp_wrapper.kernels.build import common_header, reads_common_header
from cpp_wrapper.kernels.compile import Unit, compile_object, join_objects, link_library, link_stub
from cpp_wrapper.kernels.headers import header_hashes
from cpp_wrapper.kernels.libraries import HEADER, Libraries
from cpp_wrapper.kernels.options import CppOptions
from cpp_wrapper.kernels.toolchain import (
    Recipe,
    Toolchain,
    find_toolchain,
    kernel_recipe,
    library_recipe,
    operator_recipe,
)
from cpp_wrapper.library.package import SUFFIX, write_package
from cpp_wrapper.library.static import SUFFIX as STATIC
from cpp_wrapper.library.static import write_static
from cpp_wrapper.library.write import write_image, write_weights
from cpp_wrapper.runtime_build import NATIVE_RUNTIME, RUNTIME, UNIT, find_prebuilt, unit_text
from cpp_wrapper.settings import Settings, read_settings
from cpp_wrapper.sources.kernels import KernelUnit
from cpp_wrapper.sources.operator_levels import FamilyUnit
from cpp_wrapper.sources.program import Sources
from cpp_wrapper.sources.version import NATIVE
from wrapper_ir import ir
from wrapper_ir.support.files import replacing
from wrapper_ir_runtime.cache import Entry, Store, open_cache

_OBJECT, _CODE = "unit.o", "code.so"
_DEBUG = ("-g", "-fno-omit-frame-pointer")
PARTS = ("program.cpp", "description.cpp", *RUNTIME, "driver.cpp", "gpu.cpp", "graphs.cpp", "gpu_matmuls.cpp")
"""Files other than kernels that can be compiled alone; the last four only of programs for GPUs."""
EXPORTS = (
    "{ global: AOTInductor*; wir_agreed; wir_check_constants; wir_file; wir_python; wir_release; wir_update; "
    "wir_write_outputs; local: *; };\n"
)
"""The version script of a library."""
_SHARED_SYMBOLS = ("*wir_op_*", "wir_random_seed")
"""Symbols that copies of operators for instruction sets share: they draw from one random state."""
NATIVE_EXPORTS = "{ global: wir_get_api; wir_random_seed; local: *; };\n"
"""The version script of a native library."""


@dataclass(frozen=True, slots=True)
class _Job:
    """One compiler run: file name, recipe, hashes of headers outside the sources, and the kernels of the
    file.
    """

    name: str
    recipe: Recipe
    headers: str = ""
    kernels: tuple[ir.CppKernel, ...] = ()


Progress = Callable[[str, float], None]
"""Called after each part of a library is built, with the seconds that it took; may be called by several
threads.
"""


def _quiet(part: str, seconds: float) -> None:
    pass


def build_library(
    sources: Sources,
    path: Path,
    options: CppOptions,
    settings: Settings | None = None,
    progress: Progress | None = None,
) -> Path:
    """Compiles and links a library, then replaces `path`. Raises the errors of `cpp_wrapper.build`."""
    settings = settings or read_settings()
    build = Build(sources, options, settings, find_toolchain(settings.compiler), progress or _quiet)
    if path.suffix == STATIC:
        build.write_static(path)
    else:
        build.write(sources, build.link(build.objects(), needed_libraries(sources)), path)
    return path


def _headers(unit: KernelUnit) -> str:
    """Returns hashes of headers outside the sources as text. Raises CompileError CPP105 if one is missing."""
    return repr(sorted(header_hashes(unit.kernels, torch_include_dirs()).items()))


@contextmanager
def _timed(name: str, progress: Progress) -> Iterator[None]:
    start = time.perf_counter()
    yield
    progress(name, time.perf_counter() - start)


@dataclass(frozen=True, slots=True)
class Build:
    """One build. Objects and code come from the cache, or are built and stored there.

    `folder` contains the sources as files, if given. The program and its kernels are then compiled from
    there, with debugging information and the same optimisation.
    """

    sources: Sources
    options: CppOptions
    settings: Settings
    toolchain: Toolchain
    progress: Progress = _quiet
    folder: Path | None = None

    def objects(self) -> Sequence[Entry]:
        """Returns the objects of all units, compiled in parallel."""
        recipe = self._recipe
        jobs = [_Job(UNIT, recipe)]
        own = self._with_lines(recipe)
        jobs += [_Job(name, own) for name in PARTS if name not in RUNTIME and name in self.sources.files]
        jobs += [self._operator_job(family) for family in self.sources.families if family.level is None]
        for unit in self.sources.units:
            of_kernels = self._with_lines(kernel_recipe(self.toolchain, unit.flags, self.options))
            jobs.append(_Job(unit.name, of_kernels, _headers(unit), unit.kernels))
        with ThreadPoolExecutor(self.settings.jobs) as pool:
            levels = pool.map(self._level, range(1 + self._last_level))
            entries = list(zip(jobs, pool.map(self._compile, jobs)))
        # A linker uses the first copy of an inline function. Copies in units of kernels may need instructions
        # that the processor lacks, so kernels come last.
        ordered = [entry for job, entry in sorted(entries, key=lambda pair: bool(pair[0].kernels))]
        return [*ordered, *levels]

    def _operator_job(self, family: FamilyUnit) -> _Job:
        flags = family.flags if family.level is None else (*family.flags, f"-DWIR_LEVEL=_{family.level}")
        return _Job(family.name, operator_recipe(self.toolchain, flags, self.options))

    @property
    def _last_level(self) -> int:
        """The largest number of a copy of operators; -1 if there is one copy."""
        return max((f.level for f in self.sources.families if f.level is not None), default=-1)

    def _level(self, level: int) -> Entry:
        """Returns one object of an instruction set's operators, whose functions other levels do not see."""
        jobs = [self._operator_job(family) for family in self.sources.families if family.level == level]
        entries = [self._compile(job) for job in jobs]
        recipe = self._recipe

        def join_into(folder: Path) -> None:
            unit = Unit(what="the operators", output=folder / _OBJECT, code="CPP106")
            objects = [e.folder / _OBJECT for e in entries]
            join_objects(recipe, unit, objects, _SHARED_SYMBOLS, self.options.timeout)

        key = _key("seeded level", recipe.fingerprint, *(entry.name for entry in entries))
        return self._store.ensure(key, join_into)

    def _with_lines(self, recipe: Recipe) -> Recipe:
        """Returns the recipe, with debugging information if the sources are files."""
        return recipe if self.folder is None else replace(recipe, flags=(*recipe.flags, *_DEBUG))

    def _compile(self, job: _Job) -> Entry:
        """Returns the object of one unit."""
        texts = self._texts(job)
        there = self.folder if job.name != UNIT else None
        key = _key(job.recipe.fingerprint, job.headers, str(there or ""), *texts.values())
        prebuilt = None
        if job.name == UNIT:
            prebuilt = find_prebuilt(self.toolchain.version, job.recipe.flags, self.sources.runtime)

        def compile_into(folder: Path) -> None:
            if prebuilt is not None:
                shutil.copyfile(prebuilt, folder / _OBJECT)
                return
            for name, text in texts.items() if there is None else ():
                (folder / name).write_text(text, encoding="utf-8")
            source = (there or folder) / job.name
            unit = Unit(what=job.name, source=source, output=folder / _OBJECT, code="CPP106")
            with self._header(job) as header:
                compile_object(job.recipe, replace(unit, header=header), self.options.timeout)

        with _timed(job.name, self.progress):
            return self._store.ensure(key, compile_into)

    def _texts(self, job: _Job) -> dict[str, str]:
        """Returns the files of a unit."""
        files = self.sources.files
        if job.kernels:
            return {job.name: files[job.name]}
        headers = {name: files[name] for name in sorted(files) if name.endswith(".h")}
        if job.name != UNIT:
            return {job.name: files[job.name], **headers}
        names = NATIVE_RUNTIME if self.is_native else RUNTIME
        return {UNIT: unit_text(names), **{name: files[name] for name in names}, **headers}

    @contextmanager
    def _header(self, job: _Job) -> Iterator[Path | None]:
        """Yields the precompiled header of kernels, which `CppKernelRuntime` uses, too; None if there is
        none.
        """
        if not any(reads_common_header(kernel.source) for kernel in job.kernels):
            yield None
            return
        libraries = Libraries(open_cache(self.settings.cache), job.recipe.fingerprint)
        entry = common_header(job.recipe, libraries, self.options)
        libraries.count(1)
        if entry is None:
            yield None
            return
        with entry:
            yield entry.folder / HEADER

    def link(
        self, objects: Sequence[Entry], needs: Sequence[str], aliases: Sequence[tuple[str, str]] = ()
    ) -> Entry:
        """Links the code of a library, without constants.

        `needs` are torch's libraries. `aliases` are symbols, and those of the objects that they stand for.
        """
        recipe, timeout = self._linked, self.options.timeout
        script = NATIVE_EXPORTS if self.is_native else EXPORTS
        key = _key(
            "link", recipe.fingerprint, script, repr(aliases), *needs, *(entry.name for entry in objects)
        )

        def link_into(folder: Path) -> None:
            exports = folder / "exports.map"
            exports.write_text(script)
            unit = Unit(what="the library", output=folder / _CODE, code="CPP106")
            paths = [entry.folder / _OBJECT for entry in objects]
            paths += [stub.folder / _stub_name(name) for stub, name in zip(stubs, needs)]
            link_library(recipe, unit, paths, exports, timeout, aliases=aliases, is_whole=self.is_native)

        with _timed("the library's code", self.progress), ExitStack() as stack:
            stubs = [stack.enter_context(self._stub(name)) for name in needs]
            return self._store.ensure(key, link_into)

    def _stub(self, library: str) -> Entry:
        """Returns an empty library with the name of one of torch's."""
        recipe = self._recipe

        def link_into(folder: Path) -> None:
            unit = Unit(
                what="the stub of torch's library", output=folder / _stub_name(library), code="CPP106"
            )
            link_stub(recipe, unit, self.options.timeout)

        return self._store.ensure(_key("stub", library, recipe.fingerprint), link_into)

    def write(self, sources: Sources, code: Entry, path: Path) -> None:
        """Writes a library or a package: linked code with its constants. Raises CacheError CPP303."""

        inside = sources.constants if sources.weights is None else ()

        def write(file: BinaryIO) -> None:
            write_image(file, (code.folder / _CODE).read_bytes(), inside, sources.metadata)

        try:
            if sources.weights is not None:
                write_weights(sources.weights, sources.constants, path.parent)
            with _timed("the file", self.progress), replacing(path) as temporary:
                if path.suffix == SUFFIX:
                    write_package(Path(temporary), "cuda" if "gpu.cpp" in sources.files else "cpu", write)
                else:
                    with open(temporary, "wb") as file:
                        write(file)
        except OSError as error:
            raise CacheError("CPP303", f"the library cannot be written to {path}: {error}") from error

    def write_static(self, path: Path) -> None:
        """Writes a static library with its header. Raises the errors of `library.static`."""
        if not self.is_native:
            raise EmitError("CPP503", "a static library needs the native runtime", "runtime='native'")
        objects = [entry.folder / _OBJECT for entry in self.objects()]
        with _timed("the file", self.progress):
            write_static(self.sources, objects, path, self.toolchain.command)

    @property
    def _recipe(self) -> Recipe:
        """The recipe of all units but kernels and operators."""
        return library_recipe(self.toolchain, self.options)

    @property
    def _linked(self) -> Recipe:
        """The recipe of linking."""
        static = ("-static-libstdc++", "-static-libgcc") if self.options.static_runtime else ()
        return replace(self._recipe, flags=(*self._recipe.flags, *static))

    @property
    def is_native(self) -> bool:
        """True if the library stands on the native runtime."""
        return self.sources.runtime == NATIVE

    @property
    def _store(self) -> Store:
        return open_cache(self.settings.cache).store("cpp-objects")


def needed_libraries(sources: Sources) -> tuple[str, ...]:
    """Returns the names of torch's libraries that a program calls."""
    if sources.runtime == NATIVE:
        return ()
    return ("torch_cuda", "torch_cpu") if "gpu.cpp" in sources.files else ("torch_cpu",)


def _stub_name(library: str) -> str:
    return f"lib{library}.so"


def _key(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()
