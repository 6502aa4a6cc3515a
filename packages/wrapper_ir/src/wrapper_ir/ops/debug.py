"""Ops with no effect on results."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from wrapper_ir.ops.base import OpBase, Uses

__all__ = ["Comment", "DebugMode", "DebugValue"]


class DebugMode(enum.Enum):
    """What to do with the values: print them, save them to files, or print names and layouts only."""

    PRINT = "print"
    SAVE = "save"
    NAMES = "names"


@dataclass(frozen=True, slots=True, kw_only=True)
class Comment(OpBase):
    """A line for the reader of text and emitted code. Text: `comment "attention"`."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DebugValue(OpBase):
    """Shows or saves values at this point. Text: `debug print %buf0, %buf1 "after attention"`."""

    values: Uses
    mode: DebugMode = DebugMode.PRINT
    label: str = ""
