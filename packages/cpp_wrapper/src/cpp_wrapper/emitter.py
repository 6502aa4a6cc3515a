"""The emitter `cpp`: programs whose whole calls run in C++."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from pathlib import Path

from cpp_wrapper.errors import EmitError
from cpp_wrapper.kernels.options import CppOptions
from cpp_wrapper.library.build import build_library
from cpp_wrapper.library.load import load
from cpp_wrapper.library.project import write_project
from cpp_wrapper.library.python import LoadedProgram
from cpp_wrapper.settings import Settings, read_settings
from cpp_wrapper.sources.program import Sources, emit_sources
from wrapper_ir.artifact import Artifact
from wrapper_ir.errors import NotSupportedError
from wrapper_ir.guarded import NOT_GUARDED, Guarded
from wrapper_ir.store import open_cache

__all__ = ["EMITTER", "CppEmitter"]

_LIBRARY = "program.so"


@dataclass(frozen=True, slots=True, kw_only=True)
class CppEmitter:
    """See `wrapper_ir.protocols.Emitter`. What is `guarded` is checked all the same, which costs next to nothing.

    `settings`: None reads the environment at every call.
    """

    options: CppOptions = field(default_factory=CppOptions)
    settings: Settings | None = None
    name: str = field(default="cpp", init=False)

    def emit(self, artifact: Artifact) -> Sources:
        """`cpp_wrapper.emit`."""
        return emit_sources(artifact, None, self.options)

    def write(self, artifact: Artifact, folder: Path) -> tuple[Path, ...]:
        """A CMake project; its program first."""
        write_project(emit_sources(artifact, None, self.options), folder, self.options)
        program = folder / "program.cpp"
        return (program, *sorted(path for path in folder.iterdir() if path != program))

    def compile(self, artifact: Artifact, guarded: Guarded = NOT_GUARDED) -> LoadedProgram:
        """A library in the cache, loaded. Raises NotSupportedError WIR916 for a program that cannot be written as C++, and what
        `cpp_wrapper.build` and `load` raise."""
        settings = self.settings or read_settings()
        try:
            sources = emit_sources(artifact, None, self.options)
        except EmitError as error:
            raise NotSupportedError("WIR916", f"the program cannot be written as C++: {error}") from error
        digest = hashlib.sha256(repr(sorted(sources.files.items())).encode("utf-8", "surrogatepass"))
        digest.update(sources.metadata.encode())
        for blob in sources.constants:
            digest.update(blob.data)

        def build_into(folder: Path) -> None:
            build_library(sources, folder / _LIBRARY, self.options, settings)

        store = open_cache(settings.cache).store("cpp-programs")
        with store.ensure(f"{digest.hexdigest()} {self.options}", build_into) as entry:
            return load(entry.folder / _LIBRARY)


EMITTER = CppEmitter()
"""The entry point `wrapper_ir.emitters: cpp`, with default options."""
