"""Entry point `python` of `wrapper_ir.emitters`."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

from py_wrapper.emit.program import EmittedModule, emit_module
from py_wrapper.errors import CacheError
from py_wrapper.load import load_module, write_files
from py_wrapper.options import PyOptions
from py_wrapper.relocate import relocate
from wrapper_ir import ir
from wrapper_ir.analysis.memo import Analyses
from wrapper_ir.artifact import Artifact
from wrapper_ir.operators.policy import OperatorPolicy
from wrapper_ir.plugins.emitted import EmittedText
from wrapper_ir.plugins.protocols import CompiledProgram
from wrapper_ir.plugins.registry import tuning_runtime
from wrapper_ir.support.files import check_files, replacing
from wrapper_ir_runtime.kernel_files import write_binaries
from wrapper_ir_runtime.parts import CONSTANTS


def emit(
    artifact: Artifact, options: PyOptions | None = None, analyses: Analyses | None = None
) -> EmittedModule:
    """Returns the Python module for an artifact as text, with its kernels as separate files. `analyses` is an
    existing memo of the program.

    The program must be valid (`wrapper_ir.verify`). Raises VerificationError (WIR1nn) for a signature that
    does not match it, NotSupportedError (WIR91n) for programs that need a GPU, and EmitError (PY1nn) for
    programs that the verifier refuses.
    """
    return emit_module(artifact, options or PyOptions(), analyses)


def write(artifact: Artifact, folder: str | Path, options: PyOptions | None = None) -> tuple[Path, ...]:
    """Writes a folder that runs without the artifact: the module, its kernels (including compiled ones) and
    its constants. Returns the files, the module first.

    Existing files are replaced, never overwritten, so that running modules continue to use the old ones.
    Raises CacheError PY202 if the folder cannot be written, ArtifactError WIR711 if a constant is packed for
    this machine, and WIR713 if a constant's mapped file was modified.
    """
    artifact.check_portable()
    check_files(artifact.mapped_files())
    from wrapper_ir.artifact.file.safetensors import write_safetensors

    emitted, target = emit(artifact, options), Path(folder)
    try:
        files = write_files(target, emitted)
        if artifact.constants:
            _, chunks = write_safetensors(artifact.constants)
            path = target / CONSTANTS
            with replacing(path) as temporary, open(temporary, "wb") as file:
                file.writelines(chunks)
            files.append(path)
        files += write_binaries(target, artifact.binaries)
    except (OSError, UnicodeEncodeError) as error:
        raise CacheError("PY202", f"the module cannot be written to {target}: {error}") from error
    return tuple(files)


def compile(
    artifact: Artifact, options: PyOptions | None = None, analyses: Analyses | None = None
) -> CompiledProgram:
    """Returns a callable with the model's signature and result structure. Its attribute `boxed` takes
    `main`'s flat arguments in a list, which it empties, and returns a tuple.

    Immutable constants share the artifact's memory; mutable ones are state of the callable. Raises the errors
    of `emit`, CacheError, PluginError for kernels without a runtime, and the errors of kernel runtimes.
    """
    options = options or PyOptions()
    module = load_module(emit(artifact, options, analyses), artifact, options)
    forward: CompiledProgram = module.forward
    return forward


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonEmitter:
    """See `wrapper_ir.plugins.protocols.Emitter`."""

    options: PyOptions = field(default_factory=PyOptions)
    name: str = field(default="python", init=False)

    def emit(self, artifact: Artifact) -> EmittedModule:
        """See `emit`."""
        return emit(artifact, self.options)

    def write(self, artifact: Artifact, folder: Path) -> tuple[Path, ...]:
        """See `write`."""
        return write(artifact, folder, self.options)

    def compile(self, artifact: Artifact, guarded: ir.Guarded = ir.NOT_GUARDED) -> CompiledProgram:
        """See `compile`; `guarded` is combined with the option."""
        return compile(artifact, self._guarded(guarded))

    def emitted_texts(
        self, artifact: Artifact, guarded: ir.Guarded = ir.NOT_GUARDED
    ) -> tuple[EmittedText, ...]:
        """See `wrapper_ir.plugins.emitted.LineEmitter`."""
        emitted = emit(artifact, self._guarded(guarded))
        return (EmittedText(name=f"{emitted.name}.py", text=emitted.source, origins=tuple(emitted.origins)),)

    def _guarded(self, guarded: ir.Guarded) -> PyOptions:
        return replace(self.options, guarded=self.options.guarded | guarded)

    def relocate(self, program: CompiledProgram, artifact: Artifact, folder: Path) -> tuple[Path, ...]:
        """See `relocate`."""
        return relocate(program, folder)

    def with_operators(self, policy: OperatorPolicy) -> PythonEmitter:
        """See `wrapper_ir.plugins.protocols.OperatorEmitter`."""
        return replace(self, options=replace(self.options, operators=policy))

    def with_persistent_buffers(self) -> PythonEmitter:
        """See `wrapper_ir.plugins.protocols.PersistentBufferEmitter`."""
        return replace(self, options=replace(self.options, persistent_buffers=True))

    @property
    def cuda_graph_passes(self) -> str:
        """See `wrapper_ir.plugins.protocols.CudaGraphEmitter`."""
        return "cuda-graphs{donated=true},reuse-in-place"

    def with_cuda_graphs(self, limit: int) -> PythonEmitter:
        """See `wrapper_ir.plugins.protocols.CudaGraphEmitter`."""
        return replace(self, options=replace(self.options, cuda_graphs=limit))

    def with_tuning(self) -> PythonEmitter:
        """See `wrapper_ir.plugins.protocols.TuningEmitter`."""
        return replace(self, options=replace(self.options, find_runtime=tuning_runtime))


EMITTER = PythonEmitter()
"""The emitter with default options."""
