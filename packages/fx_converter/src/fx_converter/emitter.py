"""Entry point `fx` of `wrapper_ir.emitters`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import fx

from fx_converter._compat import without_autograd
from fx_converter.boxed import BoxedSource, boxed_function, boxed_text
from fx_converter.compilers import find_compiler
from fx_converter.converter import convert, convert_as
from fx_converter.emitted import module_text
from fx_converter.nodes import Boxed
from fx_converter.options import FxOptions
from fx_converter.persistent import persistent_nodes
from fx_converter.running import relocate, running_texts
from fx_converter.saving import save
from wrapper_ir import ir
from wrapper_ir.analysis.memo import Analyses
from wrapper_ir.artifact import Artifact
from wrapper_ir.operators.policy import OperatorPolicy
from wrapper_ir.plugins.emitted import EmittedText
from wrapper_ir.plugins.protocols import CompiledProgram
from wrapper_ir.plugins.registry import tuning_runtime
from wrapper_ir.support.files import MappedFile, check_files
from wrapper_ir_passes.memory.persistent_pools import with_persistent_pools
from wrapper_ir_runtime import keep_from_dynamo, signature_call
from wrapper_ir_torch import caller


def compile(
    artifact: Artifact, options: FxOptions | None = None, analyses: Analyses | None = None
) -> CompiledProgram:
    """Returns a callable with the model's signature and result structure. Its attribute `boxed` takes
    `main`'s flat arguments in a list, which it empties, and returns a tuple. Autograd records nothing, and
    autocast does not apply.

    If a compiler for the program's device is installed, it receives the graph. Raises the errors of `convert`
    and of the compiler.
    """
    options = replace(options or FxOptions(), convention="flat")
    compiler = find_compiler(artifact.program.target.device.type, options.compilers)
    if compiler is None:
        boxed = boxed_function(_straight_line(artifact, options, analyses), options.cuda_graphs)
    else:
        boxed = _boxed(compiler.compile_graph(convert(artifact, options, analyses)))
    files = artifact.mapped_files()
    boxed = _watched(boxed, files) if files else boxed
    program = signature_call(artifact.signature, boxed, caller())
    keep_from_dynamo(torch, program, boxed)
    return program


def _straight_line(
    artifact: Artifact, options: FxOptions, analyses: Analyses | None = None, *, is_run: bool = True
) -> BoxedSource:
    """Returns the text that `compile` runs. With `is_run=False` it is only for reading (see `convert_as`)."""
    original = artifact.program
    if options.persistent_buffers:
        memo = Analyses.of(original, analyses)
        artifact = replace(artifact, program=with_persistent_pools(original, memo))
    module = convert_as(artifact, options, analyses, original=original, is_run=is_run)
    persistent = persistent_nodes(module.graph, artifact.program, is_held=options.persistent_buffers)
    repeats = options.repeated_operators and is_run
    return boxed_text(module, persistent, options.cuda_graphs, repeats=repeats)


def _watched(boxed: Boxed, files: Sequence[MappedFile]) -> Boxed:
    """Wraps `boxed` to check first that the files that constants are mapped from are unchanged."""

    def run(args: list[Any]) -> tuple[Any, ...]:  # Any: see Boxed
        check_files(files)
        return boxed(args)

    run.source = getattr(boxed, "source", None)  # type: ignore[attr-defined]  # functions take attributes
    return run


def _boxed(run: Callable[..., tuple[object, ...]]) -> Boxed:
    """Wraps a compiler's callable as a function of a list, which it empties."""

    def flat(args: list[Any]) -> tuple[Any, ...]:  # Any: see Boxed
        operands = tuple(args)
        args.clear()
        return tuple(run(*operands))

    return lambda args: without_autograd(flat, args)


@dataclass(frozen=True, slots=True, kw_only=True)
class FxEmitter:
    """See `wrapper_ir.plugins.protocols.Emitter`."""

    options: FxOptions = field(default_factory=FxOptions)
    name: str = field(default="fx", init=False)

    def emit(self, artifact: Artifact) -> fx.GraphModule:
        """See `convert`."""
        return convert(artifact, self.options)

    def write(self, artifact: Artifact, folder: Path) -> tuple[Path, ...]:
        """Writes a file for `load`."""
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / "graph.wir"
        save(convert(artifact, self.options), path)
        return (path,)

    def compile(self, artifact: Artifact, guarded: ir.Guarded = ir.NOT_GUARDED) -> CompiledProgram:
        """See `compile`; `guarded` is combined with the option."""
        return compile(artifact, self._guarded(guarded))

    def emitted_texts(
        self, artifact: Artifact, guarded: ir.Guarded = ir.NOT_GUARDED
    ) -> tuple[EmittedText, ...]:
        """See `wrapper_ir.plugins.emitted.LineEmitter`. `graph.py` is the code of the module that `emit`
        returns. `program.py`, and the functions that it calls below `functions/`, are the code that `compile`
        runs, unless it passes the graph to a compiler."""
        options = self._guarded(guarded)
        graph = module_text(convert_as(artifact, options, is_run=False), "graph.py")
        if find_compiler(artifact.program.target.device.type, options.compilers) is not None:
            return (graph,)
        flat = replace(options, convention="flat")
        return graph, *running_texts(_straight_line(artifact, flat, is_run=False))

    def relocate(self, program: CompiledProgram, artifact: Artifact, folder: Path) -> tuple[Path, ...]:
        """See `wrapper_ir.plugins.protocols.RelocatingEmitter`."""
        return relocate(program, folder)

    def _guarded(self, guarded: ir.Guarded) -> FxOptions:
        return replace(self.options, guarded=self.options.guarded | guarded)

    def with_operators(self, policy: OperatorPolicy) -> FxEmitter:
        """See `wrapper_ir.plugins.protocols.OperatorEmitter`."""
        return replace(self, options=replace(self.options, operators=policy))

    def with_persistent_buffers(self) -> FxEmitter:
        """See `wrapper_ir.plugins.protocols.PersistentBufferEmitter`."""
        return replace(self, options=replace(self.options, persistent_buffers=True))

    @property
    def cuda_graph_passes(self) -> str:
        """See `wrapper_ir.plugins.protocols.CudaGraphEmitter`."""
        return "cuda-graphs{donated=true},reuse-in-place"

    def with_cuda_graphs(self, limit: int) -> FxEmitter:
        """See `wrapper_ir.plugins.protocols.CudaGraphEmitter`."""
        return replace(self, options=replace(self.options, cuda_graphs=limit))

    def with_tuning(self) -> FxEmitter:
        """See `wrapper_ir.plugins.protocols.TuningEmitter`."""
        return replace(self, options=replace(self.options, find_runtime=tuning_runtime))


EMITTER = FxEmitter()
"""The emitter with default options."""
