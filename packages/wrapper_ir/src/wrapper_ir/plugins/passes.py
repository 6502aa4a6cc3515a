"""Base class of passes: a frozen dataclass of options, and one pure function of programs."""

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
    """Base of all passes. Its fields are options with defaults: bool, int, str or an enum of str values.

    The textual form is `name` or `name{option=value,flag=true}`; a text with commas is in double quotes.
    """

    name: ClassVar[str]
    repairs: ClassVar[frozenset[str]] = frozenset()
    """Codes of verifier rules that the input may violate because the pass repairs them."""

    def run(self, program: ir.Program, analyses: Analyses | None = None) -> ir.Program:
        """Returns the transformed program, or the argument itself if nothing changes.

        `analyses` is the argument's memo, if the caller has one.
        """
        with paused_collection():
            return self.transform(Analyses.of(program, analyses))

    @abstractmethod
    def transform(self, analyses: Analyses) -> ir.Program:
        """Returns the transformed program of this memo."""

    def comparable(self, before: ir.Program, after: ir.Program) -> tuple[ir.Program, ir.Program]:
        """Returns two programs that are equivalent if the pass is correct.

        They are argument and result, without the behavior that the pass intentionally changes.
        """
        return before, after

    def around(self, artifact: Artifact, program: ir.Program) -> Artifact:
        """Returns the artifact with the pass's result, with signature and binaries updated."""
        return dataclasses.replace(artifact, program=program)

    @property
    def spec(self) -> str:
        """Textual form, with the options that differ from their defaults, in order of declaration."""
        options = []
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)  # the pass's own fields, by name
            if value != field.default:
                options.append(f"{option_name(field.name)}={_text(value)}")
        return f"{self.name}{{{','.join(options)}}}" if options else self.name


def option_name(field: str) -> str:
    """Returns the name of a field's option: `from` for `from_`, since `from` is a keyword."""
    return field.rstrip("_").replace("_", "-")


def _text(value: object) -> str:
    match value:
        case enum.Enum():
            return str(value.value)
        case bool():
            return str(value).lower()
        case str() if "," in value:
            return f'"{value}"'
        case _:
            return str(value)
