"""What a pass is: a frozen dataclass of options with a name, and one pure function from program to program."""

from __future__ import annotations

import dataclasses
import enum
from abc import ABC, abstractmethod
from typing import ClassVar

from wrapper_ir import ir
from wrapper_ir.analysis.memo import Analyses
from wrapper_ir.artifact import Artifact
from wrapper_ir.support.collection import paused_collection


@dataclasses.dataclass(frozen=True)
class Pass(ABC):
    """Base of all passes. Fields are the options; they are of type bool, int, str or an enum with str values, and
    have defaults. The textual form is `name` or `name{option=value,flag=true}`; a text with commas is in double quotes."""

    name: ClassVar[str]
    repairs: ClassVar[frozenset[str]] = frozenset()
    """Codes of verifier rules that the input may break, because the pass mends them."""

    def run(self, program: ir.Program, analyses: Analyses | None = None) -> ir.Program:
        """The transformed program, the argument itself where there is nothing to change; `analyses` is the argument's memo,
        where the caller has one."""
        with paused_collection():
            return self.transform(Analyses.of(program, analyses))

    @abstractmethod
    def transform(self, analyses: Analyses) -> ir.Program:
        """The transformed program of this memo."""

    def comparable(self, before: ir.Program, after: ir.Program) -> tuple[ir.Program, ir.Program]:
        """Two programs that do the same if the pass kept what its argument does: argument and result themselves, but for
        what the pass is there to change."""
        return before, after

    def around(self, artifact: Artifact, program: ir.Program) -> Artifact:
        """The artifact with the pass's result, its signature and binaries changed as the program was."""
        return dataclasses.replace(artifact, program=program)

    @property
    def spec(self) -> str:
        """The textual form: options that differ from their defaults, in order of declaration."""
        options = []
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)  # the pass's own fields, by name
            if value != field.default:
                options.append(f"{option_name(field.name)}={_text(value)}")
        return f"{self.name}{{{','.join(options)}}}" if options else self.name


def option_name(field: str) -> str:
    """How an option is written: `from_`, which Python keeps for itself, is `from`."""
    return field.rstrip("_").replace("_", "-")


def _text(value: object) -> str:
    if isinstance(value, enum.Enum):
        return str(value.value)
    if isinstance(value, str) and "," in value:
        return f'"{value}"'
    return str(value).lower() if isinstance(value, bool) else str(value)
