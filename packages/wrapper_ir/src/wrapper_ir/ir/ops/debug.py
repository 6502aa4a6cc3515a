"""Ops with no effect on results."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import ClassVar

from wrapper_ir.expr import Expr
from wrapper_ir.ir.ops.base import OpBase, Uses
from wrapper_ir.ir.ops.effects import EffectClass, EffectContext, Effects
from wrapper_ir.ir.types import ScalarType, TensorType


class DebugMode(enum.Enum):
    """What to do with the values: print them, save tensors to files, or print the name of the kernel only."""

    PRINT = "print"
    SAVE = "save"
    NAMES = "names"


class DebugPhase(enum.Enum):
    """Where the values stand: before or after the launch of a kernel, among the program's inputs or outputs, or at this point of the
    program alone."""

    BEFORE = "before"
    AFTER = "after"
    INPUTS = "inputs"
    OUTPUTS = "outputs"
    HERE = "here"

    @property
    def is_launch(self) -> bool:
        """Whether it is a time of a launch."""
        return self in (DebugPhase.BEFORE, DebugPhase.AFTER)


@dataclass(frozen=True, slots=True, kw_only=True)
class Comment(OpBase):
    """A line for the reader of text and emitted code. Text: `comment "attention"`."""

    syntax: ClassVar[str] = "comment {text}"

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DebugValue(OpBase):
    """Shows or saves tensors and numbers at this point. `phase` and `callee` say together which kernel's or operator's
    arguments they are, before its launch or after it; `callee` is text for readers, and refers to nothing. Tensors are saved in
    `directory`, which is made when the program runs.
    Text: `debug print %buf0, %buf1 "after attention"`, `debug print before launch "relu" %x numbers(s0)`,
    `debug save inputs %x to "values"`, `debug names after launch "relu"`.
    """

    syntax: ClassVar[str] = (
        "debug {mode}< {phase}>< launch {callee}>< {values}>< numbers({numbers})>< to {directory}>< {label}>"
    )

    values: Uses[TensorType | ScalarType] = ()
    numbers: tuple[Expr, ...] = ()
    mode: DebugMode = DebugMode.PRINT
    phase: DebugPhase = DebugPhase.HERE
    callee: str = ""
    directory: str = ""
    label: str = ""

    def effects(self, context: EffectContext) -> Effects:
        """Names are shown without reading elements."""
        read = self.values if self.mode is not DebugMode.NAMES else ()
        return Effects(reads=read, classes=(EffectClass.HOST_IO,))


DebugOp = Comment | DebugValue
