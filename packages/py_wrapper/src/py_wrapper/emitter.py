"""The entry point `python` of `wrapper_ir.emitters`."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from py_wrapper.emit.program import EmittedModule, emit_module
from py_wrapper.errors import CacheError
from py_wrapper.load import load_module, write_files
from py_wrapper.options import PyOptions
from wrapper_ir.artifact import Artifact
from wrapper_ir.protocols import CompiledProgram
from wrapper_ir.runtime.kernel_files import write_binaries
from wrapper_ir.runtime.parts import CONSTANTS

__all__ = ["EMITTER", "PythonEmitter", "compile", "emit", "write"]


def emit(artifact: Artifact, options: PyOptions | None = None) -> EmittedModule:
    """The Python module for an artifact, as text, with its kernels as files of their own.

    The program must be valid (`wrapper_ir.verify`). Raises NotSupportedError (WIR91n) for what needs a GPU and
    EmitError (PY1nn) for what a verifier would have refused.
    """
    return emit_module(artifact, options or PyOptions())


def write(artifact: Artifact, folder: str | Path, options: PyOptions | None = None) -> tuple[Path, ...]:
    """Writes a folder that runs on its own: the module, its kernels (compiled ones as well) and its constants; the module
    comes first.

    Raises CacheError PY202 where it cannot be written, and ArtifactError WIR711 where a constant is packed for this
    machine.
    """
    artifact.check_portable()
    from wrapper_ir.storage.safetensors import write_safetensors

    emitted, target = emit(artifact, options), Path(folder)
    try:
        files = write_files(target, emitted)
        if artifact.constants:
            _, chunks = write_safetensors(artifact.constants)
            path = target / CONSTANTS
            with path.open("wb") as file:
                file.writelines(chunks)
            files.append(path)
        files += write_binaries(target, artifact.binaries)
    except OSError as error:
        raise CacheError("PY202", f"the module cannot be written to {target}: {error}") from error
    return tuple(files)


def compile(artifact: Artifact, options: PyOptions | None = None) -> CompiledProgram:
    """A callable with the model's own signature and result structure; its attribute `boxed` takes `main`'s flat
    arguments in a list, which it empties, and returns a tuple.

    Immutable constants share the artifact's memory; mutable ones are the callable's own state. Raises what `emit`
    raises, CacheError, PluginError for kernels without a runtime, and what kernel runtimes raise.
    """
    options = options or PyOptions()
    module = load_module(emit(artifact, options), artifact, options)
    forward: CompiledProgram = module.forward
    return forward


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonEmitter:
    """See `wrapper_ir.protocols.Emitter`."""

    options: PyOptions = field(default_factory=PyOptions)
    name: str = field(default="python", init=False)

    def emit(self, artifact: Artifact) -> EmittedModule:
        """`emit`."""
        return emit(artifact, self.options)

    def write(self, artifact: Artifact, folder: Path) -> tuple[Path, ...]:
        """`write`."""
        return write(artifact, folder, self.options)

    def compile(self, artifact: Artifact) -> CompiledProgram:
        """`compile`."""
        return compile(artifact, self.options)


EMITTER = PythonEmitter()
"""With default options."""
