"""Emitted text with the origin of each line, which emitters give and `wrapper_ir_tools.explain` reads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from wrapper_ir import ir
from wrapper_ir.artifact import Artifact


@dataclass(frozen=True, slots=True, kw_only=True)
class LineOrigin:
    """What a line of emitted text is written for.

    An op: `function` and `position` say which. Or something around the ops: `note` says what (`imports`, `argument %x`), with
    the `kernel` or the `constant` that the line prepares, where it prepares one.
    """

    function: str = ""
    position: int = -1
    kernel: str = ""
    constant: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class EmittedText:
    """One file of emitted text. `origins` has an item for each of its lines, None for blank lines and comments; `name` is
    the file's path below the folder that the emitter writes."""

    name: str
    text: str
    origins: tuple[LineOrigin | None, ...]


@runtime_checkable
class LineEmitter(Protocol):
    """What an `Emitter` offers besides where it knows which op each line is written for; `wir explain` asks for it."""

    def emitted_texts(
        self, artifact: Artifact, guarded: ir.Guarded = ir.NOT_GUARDED
    ) -> tuple[EmittedText, ...]:
        """What the emitter writes of an artifact whose inputs are guarded so, file by file, with the origin of each line."""


class OpOrigins:
    """The origins of the ops of a lowered program in the program that was lowered: lowering adds ops and keeps the others."""

    def __init__(self, program: ir.Program, lowered: ir.Program) -> None:
        given = {f.name: f for f in program.functions}
        self._found: dict[str, list[LineOrigin]] = {
            f.name: _origins(given[f.name], f) for f in lowered.functions if f.name in given
        }

    def of(self, function: str, position: int) -> LineOrigin:
        """The origin of the op at `position` of the lowered function; for an op that lowering added, that of the op
        which it was added for: a neighbour."""
        found = self._found.get(function, ())
        return found[position] if position < len(found) else LineOrigin(note=f"function @{function}")


def _origins(given: ir.Function, lowered: ir.Function) -> list[LineOrigin]:
    positions = {id(op): at for at, op in enumerate(given.body)}
    known = [positions.get(id(op)) for op in lowered.body]
    after = list(known)
    for at in range(len(after) - 2, -1, -1):
        after[at] = after[at + 1] if after[at] is None else after[at]
    found: list[LineOrigin] = []
    before: int | None = None
    for at, op in enumerate(lowered.body):
        before = before if known[at] is None else known[at]
        note, position = "", known[at]
        if position is None and isinstance(op, ir.AssertLayout) and op.sizes and before is not None:
            note, position = "added by lowering, after this op", before  # a check of what it returned
        elif position is None:
            note, position = "added by lowering, before this op", after[at]
        found.append(LineOrigin(function=given.name, position=position or 0, note=note))
    return found
