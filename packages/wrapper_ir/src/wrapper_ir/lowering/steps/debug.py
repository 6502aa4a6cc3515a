"""Steps for readers: values and comments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from wrapper_ir.lowering.steps.base import StepBase
from wrapper_ir.ops import DebugMode, DebugPhase
from wrapper_ir.types import ScalarType, TensorType
from wrapper_ir.values import Value

__all__ = ["Comment", "DebugStep", "ShowValue"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShowValue(StepBase):
    """Shows or saves one value. Text: `show print %x "after attention"`."""

    syntax: ClassVar[str] = "show {mode} {value}< {phase}>< {kernel}>< {label}>"

    value: Value[TensorType | ScalarType]
    mode: DebugMode
    phase: DebugPhase = DebugPhase.HERE
    kernel: str = ""
    label: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comment(StepBase):
    """A line for readers. Text: `comment "attention"`."""

    syntax: ClassVar[str] = "comment {text}"

    text: str


DebugStep = ShowValue | Comment
