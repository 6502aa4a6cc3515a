"""The emitter `cpp`: whole calls of a program run in C++."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from cpp_wrapper.errors import EmitError
from cpp_wrapper.kernels.options import CppOptions, options_from_texts
from cpp_wrapper.library.batch import build_libraries
from cpp_wrapper.library.build import build_library
from cpp_wrapper.library.debug_build import relocate
from cpp_wrapper.library.project import write_project
from cpp_wrapper.settings import Settings, read_settings
from cpp_wrapper.sources.program import Sources, emit_sources
from wrapper_ir import ir
from wrapper_ir.artifact import Artifact
from wrapper_ir.errors import NotSupportedError
from wrapper_ir.plugins.emitted import EmittedText
from wrapper_ir.plugins.protocols import CompiledProgram
from wrapper_ir_runtime.cache import Store, open_cache

if TYPE_CHECKING:
    from cpp_wrapper.library.python import LoadedProgram  # loaded, it loads torch

_LIBRARY = "program.so"


def _copy(library: Path, folder: Path) -> None:
    shutil.copyfile(library, folder / _LIBRARY)


@dataclass(frozen=True, slots=True, kw_only=True)
class CppEmitter:
    """See `wrapper_ir.plugins.protocols.Emitter`. Inputs are checked even if `guarded`, at almost no cost.

    `settings`: None reads the environment at every call.
    """

    options: CppOptions = field(default_factory=CppOptions)
    settings: Settings | None = None
    name: str = field(default="cpp", init=False)

    def with_persistent_buffers(self) -> CppEmitter:
        """See `wrapper_ir.plugins.protocols.PersistentBufferEmitter`."""
        return replace(self, options=replace(self.options, persistent_buffers=True))

    @property
    def cuda_graph_passes(self) -> str:
        """Passes before capture: the shim cannot capture operators that allocate, and a graph owns
        its memory.
        """
        return "cuda-graphs{own_memory=true},plan-memory"

    def with_cuda_graphs(self, limit: int) -> CppEmitter:
        """See `wrapper_ir.plugins.protocols.CudaGraphEmitter`."""
        return replace(self, options=replace(self.options, cuda_graphs=limit))

    def emit(self, artifact: Artifact) -> Sources:
        """Emits sources, as `cpp_wrapper.emit` does."""
        return emit_sources(artifact, None, self._elsewhere)

    def emitted_texts(
        self, artifact: Artifact, guarded: ir.Guarded = ir.NOT_GUARDED
    ) -> tuple[EmittedText, ...]:
        """See `wrapper_ir.plugins.emitted.LineEmitter`.

        Returns the program's own file as `compile` builds it, without the files that all libraries share.
        `guarded` has no effect.
        """
        sources = emit_sources(artifact, None, self.options)
        text = sources.files["program.cpp"]
        return (EmittedText(name="program.cpp", text=text, origins=sources.origins),)

    def relocate(self, program: CompiledProgram, artifact: Artifact, folder: Path) -> tuple[Path, ...]:
        """See `wrapper_ir.plugins.protocols.RelocatingEmitter`. Builds a library from sources in `folder`."""
        from cpp_wrapper.library.python import LoadedProgram  # it loads torch

        assert isinstance(program, LoadedProgram)  # of `compile`
        sources = emit_sources(artifact, None, self.options)
        settings = self.settings or read_settings()
        return relocate(program, sources, artifact, folder, self.options, settings)

    def write(self, artifact: Artifact, folder: Path) -> tuple[Path, ...]:
        """Writes a CMake project and returns its files, `program.cpp` first."""
        write_project(emit_sources(artifact, None, self._elsewhere), folder, self.options)
        program = folder / "program.cpp"
        return (program, *sorted(path for path in folder.iterdir() if path != program))

    @property
    def _elsewhere(self) -> CppOptions:
        """Options of sources, which may be built for processes without Python."""
        return replace(self.options, python_operators=False)

    def build_file(self, artifact: Artifact, path: Path, settings: Mapping[str, str]) -> Path:
        """See `wrapper_ir.plugins.protocols.BuildingEmitter`. Raises the errors of `cpp_wrapper.build`."""
        options = options_from_texts(settings)
        return build_library(emit_sources(artifact, None, options), path, options, self.settings)

    def compile(self, artifact: Artifact, guarded: ir.Guarded = ir.NOT_GUARDED) -> LoadedProgram:
        """Builds a library in the cache and loads it.

        Raises NotSupportedError WIR916 for a program that cannot be written as C++, and the errors of
        `cpp_wrapper.build` and `load`.
        """
        from cpp_wrapper.library.load import load  # it loads torch

        settings = self.settings or read_settings()
        try:
            sources = emit_sources(artifact, None, self.options)
        except EmitError as error:
            raise NotSupportedError("WIR916", f"the program cannot be written as C++: {error}") from error

        def build_into(folder: Path) -> None:
            build_library(sources, folder / _LIBRARY, self.options, settings)

        with self._store(settings).ensure(self._key(sources), build_into) as entry:
            return load(entry.folder / _LIBRARY, artifact.program.target.device.index)

    def build_together(self, artifacts: Sequence[Artifact]) -> None:
        """Builds the libraries of many programs at once, in the cache that `compile` reads.

        Each program takes a fraction of the time of a separate build. Programs that cannot be written as C++
        are skipped. Raises the errors of `cpp_wrapper.build`.
        """
        settings = self.settings or read_settings()
        store = self._store(settings)
        missing: dict[str, Sources] = {}
        for artifact in artifacts:
            with suppress(EmitError):
                sources = emit_sources(artifact, None, self.options)
                if store.find(key := self._key(sources)) is None:
                    missing[key] = sources
        with TemporaryDirectory(prefix="wir_build_") as name:
            paths = [Path(name) / f"{number}.so" for number in range(len(missing))]
            build_libraries(list(zip(missing.values(), paths)), self.options, settings)
            for key, path in zip(missing, paths):
                store.add(key, partial(_copy, path))

    def _store(self, settings: Settings) -> Store:
        return open_cache(settings.cache).store("cpp-programs")

    def _key(self, sources: Sources) -> str:
        """Returns the cache key of a program's library."""
        digest = hashlib.sha256(repr(sorted(sources.files.items())).encode("utf-8", "surrogatepass"))
        digest.update(sources.metadata.encode())
        for blob in sources.constants:
            digest.update(blob.data)
        return f"{digest.hexdigest()} {self.options}"


EMITTER = CppEmitter(options=CppOptions(python_operators=True))
"""The entry point `wrapper_ir.emitters: cpp`. Its libraries run in Python processes."""
