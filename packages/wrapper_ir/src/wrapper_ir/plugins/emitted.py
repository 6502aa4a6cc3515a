"""Emitted text with the origin of each line, for `wrapper_ir_tools.explain`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from wrapper_ir import ir
from wrapper_ir.artifact import Artifact


@dataclass(frozen=True, slots=True, kw_only=True)
class LineOrigin:
    """Origin of a line of emitted text.

    It is an op at `position` of `function`, or code around the ops that `note` describes (`imports`,
    `argument %x`). Such code may prepare a `kernel` or a `constant`.
    """

    function: str = ""
    position: int = -1
    kernel: str = ""
    constant: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class EmittedText:
    """One file of emitted text.

    `origins` has an item for each line, None for blank lines and comments. `name` is the path of the file in
    the folder that the emitter writes.
    """

    name: str
    text: str
    origins: tuple[LineOrigin | None, ...]


@runtime_checkable
class LineEmitter(Protocol):
    """Optional emitter capability: relate each emitted line to its op (`wir explain`)."""

    def emitted_texts(
        self, artifact: Artifact, guarded: ir.Guarded = ir.NOT_GUARDED
    ) -> tuple[EmittedText, ...]:
        """Returns the emitted files for an artifact and its guards, with the origin of each line."""


class OpOrigins:
    """Origins of a lowered program's ops in the original program. Lowering adds ops and keeps all others."""

    def __init__(self, program: ir.Program, lowered: ir.Program) -> None:
        originals = {f.name: f for f in program.functions}
        self._origins: dict[str, list[LineOrigin]] = {
            f.name: _origins(originals[f.name], f) for f in lowered.functions if f.name in originals
        }

    def of(self, function: str, position: int) -> LineOrigin:
        """Returns the origin of the op at `position` of the lowered function.

        For an op that lowering added, it is the neighbor that it was added for.
        """
        origins = self._origins.get(function, ())
        return origins[position] if position < len(origins) else LineOrigin(note=f"function @{function}")


def _origins(original: ir.Function, lowered: ir.Function) -> list[LineOrigin]:
    positions = {id(op): at for at, op in enumerate(original.body)}
    sources = [positions.get(id(op)) for op in lowered.body]
    after = list(sources)
    for at in range(len(after) - 2, -1, -1):
        after[at] = after[at + 1] if after[at] is None else after[at]
    origins: list[LineOrigin] = []
    before: int | None = None
    for at, op in enumerate(lowered.body):
        before = before if sources[at] is None else sources[at]
        note, position = "", sources[at]
        if position is None and isinstance(op, ir.AssertLayout) and op.sizes and before is not None:
            note, position = "added by lowering, after this op", before  # a check of the op's result
        elif position is None:
            note, position = "added by lowering, before this op", after[at]
        origins.append(LineOrigin(function=original.name, position=position or 0, note=note))
    return origins
