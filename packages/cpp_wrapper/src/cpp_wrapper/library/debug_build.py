"""Rebuilds the library of a loaded program with debugging information, from sources in a folder."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

from cpp_wrapper.errors import CacheError
from cpp_wrapper.kernels.options import CppOptions
from cpp_wrapper.kernels.toolchain import find_toolchain
from cpp_wrapper.library.build import Build, needed_libraries
from cpp_wrapper.library.project import write_project
from cpp_wrapper.settings import Settings
from cpp_wrapper.sources.program import Sources
from wrapper_ir.artifact import Artifact

if TYPE_CHECKING:
    from cpp_wrapper.library.python import LoadedProgram  # loaded, it loads torch

_STEM = "program-"
_DIGITS = 12


def relocate(
    program: LoadedProgram,
    sources: Sources,
    artifact: Artifact,
    folder: Path,
    options: CppOptions,
    settings: Settings,
) -> tuple[Path, ...]:
    """Builds the library of a loaded program in `folder` (see `build_in_folder`), for all later calls.

    Returns the files, `program.cpp` first. Current calls end in the library that they began in.

    Raises CacheError CPP305 for a program with mutable constants, whose values are in the current library,
    and the errors of `cpp_wrapper.build` and `load`.
    """
    mutable = [c.value.name for c in artifact.program.constants if c.mutable]
    if mutable:
        raise CacheError(
            "CPP305",
            f"the program keeps %{mutable[0]} from call to call, in the library that runs",
            "`cpp_wrapper.build(..., source_only=True)` writes the sources; "
            "CppOptions(debug_info=True) keeps line tables",
        )
    from cpp_wrapper.library.load import load_in_place  # it loads torch

    folder = folder.absolute()
    library = build_in_folder(sources, folder, options, settings)
    if program.path != library:
        program.run_as(load_in_place(library, artifact.program.target.device.index))
    others = sorted(path for path in folder.iterdir() if path.name != "program.cpp")
    return folder / "program.cpp", *others


def build_in_folder(sources: Sources, folder: Path, options: CppOptions, settings: Settings) -> Path:
    """Writes a CMake project into `folder`, builds a library of these files beside it, and returns the
    library.

    Debuggers find the files. The library's name contains a hash of its sources: the dynamic loader does not
    load a path twice. Raises the errors of `cpp_wrapper.build`.
    """
    write_project(sources, folder, options)
    build = Build(sources, options, settings, find_toolchain(settings.compiler), folder=folder)
    code = build.link(build.objects(), needed_libraries(sources))
    digest = hashlib.sha256(f"{code.name} {sources.metadata}".encode())
    for blob in sources.constants:
        digest.update(blob.data)
    path = folder / f"{_STEM}{digest.hexdigest()[:_DIGITS]}.so"
    if not path.exists():
        build.write(sources, code, path)
    for old in folder.glob(f"{_STEM}*.so"):
        if old != path:
            old.unlink()
    return path
