"""What users call: sources of a program, and the library built of them."""

from __future__ import annotations

from pathlib import Path

from cpp_wrapper.kernels.options import CppOptions
from cpp_wrapper.library.build import Progress, build_library
from cpp_wrapper.library.project import write_project
from cpp_wrapper.settings import Settings
from cpp_wrapper.sources.program import Sources, emit_sources
from wrapper_ir.analysis.memo import Analyses
from wrapper_ir.artifact import Artifact


def emit(artifact: Artifact, analyses: Analyses | None = None, options: CppOptions | None = None) -> Sources:
    """The C++ of a library for an artifact, as text. `analyses` is the program's memo, where the caller has one.

    The program must be valid (`wrapper_ir.verify`). Raises EmitError (CPP5nn) for what this edition does not write,
    IsaError CPP202 for kernels of unknown instruction sets, KernelError, and what lowering raises (WIR1nn, WIR24n, WIR91n).
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
    """Builds a library that `load` and torch's AOTInductor runners open, or a package where `path` ends in `.pt2`, which
    torch's package loaders open; gives its path. With `source_only` a folder with a CMake project of the library: nothing is
    compiled. `progress(part, seconds)` is called for each part once it is there.

    A file of that name is replaced once the library is whole, and stays as it is where anything fails. Raises what `emit`
    raises, CompileError (no compiler, a refusal), CacheError CPP303 where `path` cannot be written, and StoreError.
    """
    options = options or CppOptions()
    sources = emit(artifact, options=options)
    if source_only:
        return write_project(sources, Path(path), options)
    return build_library(sources, Path(path), options, settings, progress)
