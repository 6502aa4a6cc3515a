"""Fields that all steps share: their origin, and the stream that they queue work on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from wrapper_ir import ir


@dataclass(frozen=True, slots=True)
class Origin:
    """The op that a step comes from, and its position in the function's body.

    None and -1 for the steps of a call before the first op.
    """

    op: ir.OpBase | None = None
    position: int = -1


BEFORE = Origin()
"""The origin of steps without an op."""


@dataclass(frozen=True, slots=True)
class Stream:
    """A stream of a device; number 0 is the device's current one. Text: `stream(1) @cuda:0`."""

    device: ir.Device
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StepBase:
    """Base of all steps, which only hold data.

    `syntax` is the text form (see `wrapper_ir_lowering.printer`).
    """

    syntax: ClassVar[str] = ""

    at: Origin = BEFORE

    @property
    def prov(self) -> ir.Provenance:
        """The source positions of the op."""
        return ir.UNKNOWN if self.at.op is None else self.at.op.prov
