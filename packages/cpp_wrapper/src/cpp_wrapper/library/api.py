"""The public functions that emit sources of a program and build a library."""

from __future__ import annotations

from pathlib import Path

from cpp_wrapper.kernels.options import CppOptions
from cpp_wrapper.library.build import Progress, build_library
from cpp_wrapper.library.project import write_project
from cpp_wrapper.library.static import SUFFIX as STATIC
from cpp_wrapper.library.static import static_name
from cpp_wrapper.settings import Settings
from cpp_wrapper.sources.program import Sources, emit_sources
from wrapper_ir.analysis.memo import Analyses
from wrapper_ir.artifact import Artifact


def emit(artifact: Artifact, analyses: Analyses | None = None, options: CppOptions | None = None) -> Sources:
    """Returns the C++ sources of a library for an artifact.

    `analyses` is the program's memo, if the caller has one.

    The program must be valid (`wrapper_ir.verify`). Raises EmitError (CPP5nn) for unsupported programs,
    IsaError CPP202 for kernels of unknown instruction sets, KernelError, and the errors of lowering (WIR1nn,
    WIR24n, WIR91n).
    """
    return emit_sources(artifact, analyses, options or CppOptions())


def build(
    artifact: Artifact,
    path: str | Path,
    options: CppOptions | None = None,
    *,
    source_only: bool = False,
    settings: Settings | None = None,
    progress: Progress | None = None,
) -> Path:
    """Builds a library for `load` and torch's AOTInductor runners, and returns its path.

    If `path` ends in `.pt2`, builds a package for torch's package loaders. If it is `libNAME.a`, builds a
    static native library, whose function is `wir_NAME_get_api`, and a header `NAME.h` beside it. With
    `source_only`, writes a folder with a CMake project and compiles nothing. `progress(part, seconds)` is
    called after each part is built.

    An existing file is replaced after the library is complete, and stays unchanged if the build fails. Raises
    the errors of `emit`, CompileError (no compiler, or it refuses), CacheError CPP303 if `path` cannot be
    written, and StoreError.
    """
    options = options or CppOptions()
    path = Path(path)
    name = static_name(path) if path.suffix == STATIC else path.stem
    sources = emit_sources(artifact, None, options, name)
    if source_only:
        return write_project(sources, path, options)
    return build_library(sources, path, options, settings, progress)
