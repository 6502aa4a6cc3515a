"""Ops with no effect on results."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import ClassVar

from wrapper_ir.ops.base import KernelName, OpBase, Uses
from wrapper_ir.ops.effects import EffectClass, EffectContext, Effects
from wrapper_ir.types import ScalarType, TensorType

__all__ = ["Comment", "DebugMode", "DebugOp", "DebugPhase", "DebugValue"]


class DebugMode(enum.Enum):
    """What to do with the values: print them, save them to files, or print names and layouts only."""

    PRINT = "print"
    SAVE = "save"
    NAMES = "names"


class DebugPhase(enum.Enum):
    """Where the values stand: before or after the launch of a kernel, or at this point of the program alone."""

    BEFORE = "before"
    AFTER = "after"
    HERE = "here"


@dataclass(frozen=True, slots=True, kw_only=True)
class Comment(OpBase):
    """A line for the reader of text and emitted code. Text: `comment "attention"`."""

    syntax: ClassVar[str] = "comment {text}"

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DebugValue(OpBase):
    """Shows or saves tensors and numbers at this point. `phase` and `kernel` say together which kernel's arguments they
    are, before its launch or after it.
    Text: `debug print %buf0, %buf1 "after attention"`, `debug save before @relu %x, %n`.
    """

    syntax: ClassVar[str] = "debug {mode}< {phase}>< {kernel}>< {values}>< {label}>"

    values: Uses[TensorType | ScalarType] = ()
    mode: DebugMode = DebugMode.PRINT
    phase: DebugPhase = DebugPhase.HERE
    kernel: KernelName = ""
    label: str = ""

    def effects(self, context: EffectContext) -> Effects:
        """Names and layouts are shown without reading elements."""
        read = self.values if self.mode is not DebugMode.NAMES else ()
        return Effects(reads=read, classes=(EffectClass.HOST_IO,))


DebugOp = Comment | DebugValue
