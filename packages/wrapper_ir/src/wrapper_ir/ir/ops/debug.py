"""Debugging ops, which have no effect on results."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import ClassVar

from wrapper_ir.expr import Expr
from wrapper_ir.ir.ops.base import OpBase, Uses
from wrapper_ir.ir.ops.effects import EffectClass, EffectContext, Effects
from wrapper_ir.ir.types import ScalarType, TensorType


class DebugMode(enum.Enum):
    """Action on the values: print them, save tensors to files, or print only the kernel's name."""

    PRINT = "print"
    SAVE = "save"
    NAMES = "names"


class DebugPhase(enum.Enum):
    """Point that the values belong to: before or after a launch, the program's inputs or outputs, or here."""

    BEFORE = "before"
    AFTER = "after"
    INPUTS = "inputs"
    OUTPUTS = "outputs"
    HERE = "here"

    @property
    def is_launch(self) -> bool:
        """Returns whether the phase is before or after a launch."""
        return self in (DebugPhase.BEFORE, DebugPhase.AFTER)


@dataclass(frozen=True, slots=True, kw_only=True)
class Comment(OpBase):
    """A comment in text and emitted code. Text: `comment "attention"`."""

    syntax: ClassVar[str] = "comment {text}"

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DebugValue(OpBase):
    """Prints or saves tensors and numbers.

    `phase` and `callee` describe the launch whose arguments they are; `callee` is plain text, not a
    reference. Tensors are saved in `directory`, which is created at run time.

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
        """Reads the elements, except in mode `NAMES`."""
        operands = self.values if self.mode is not DebugMode.NAMES else ()
        return Effects(reads=operands, classes=(EffectClass.HOST_IO,))


DebugOp = Comment | DebugValue
