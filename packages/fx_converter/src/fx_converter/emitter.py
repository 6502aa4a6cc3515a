"""The entry point `fx` of `wrapper_ir.emitters`."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from torch import fx

from fx_converter._compat import caller
from fx_converter.boxed import boxed_call
from fx_converter.converter import convert
from fx_converter.options import FxOptions
from fx_converter.saving import save
from wrapper_ir.artifact import Artifact
from wrapper_ir.protocols import CompiledProgram
from wrapper_ir.runtime import signature_call

__all__ = ["EMITTER", "FxEmitter", "compile"]


def compile(artifact: Artifact, options: FxOptions | None = None) -> CompiledProgram:
    """A callable with the model's own signature and result structure; its attribute `boxed` takes `main`'s flat arguments
    in a list, which it empties, and returns a tuple. Raises what `convert` raises."""
    module = convert(artifact, options)
    return signature_call(artifact.signature, boxed_call(module), caller())


@dataclass(frozen=True, slots=True, kw_only=True)
class FxEmitter:
    """See `wrapper_ir.protocols.Emitter`."""

    options: FxOptions = field(default_factory=FxOptions)
    name: str = field(default="fx", init=False)

    def emit(self, artifact: Artifact) -> fx.GraphModule:
        """`convert`."""
        return convert(artifact, self.options)

    def write(self, artifact: Artifact, folder: Path) -> tuple[Path, ...]:
        """A file for `load`."""
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / "graph.wir"
        save(convert(artifact, self.options), path)
        return (path,)

    def compile(self, artifact: Artifact) -> CompiledProgram:
        """`compile`."""
        return compile(artifact, self.options)


EMITTER = FxEmitter()
"""With default options."""
