"""What all steps share: where a step comes from, and the stream that it queues work on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from wrapper_ir import ir


@dataclass(frozen=True, slots=True)
class Origin:
    """The op that a step comes from, and its position in the function's body; None and -1 for what a call does before
    the first op."""

    op: ir.OpBase | None = None
    position: int = -1


BEFORE = Origin()
"""The origin of steps that no op asks for."""


@dataclass(frozen=True, slots=True)
class Stream:
    """A stream of a device; number 0 is the device's current one. Text: `stream(1) @cuda:0`."""

    device: ir.Device
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StepBase:
    """Base of all steps. Constructing one does nothing but hold data; `syntax` is the text form
    (`wrapper_ir_lowering.printer` says how to read it)."""

    syntax: ClassVar[str] = ""

    at: Origin = BEFORE

    @property
    def prov(self) -> ir.Provenance:
        """Where the op comes from."""
        return ir.UNKNOWN if self.at.op is None else self.at.op.prov
