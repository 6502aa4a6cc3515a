"""Steps that define symbols, check at run time, and show values."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import ClassVar

from wrapper_ir.expr import Expr
from wrapper_ir.inputs import Input
from wrapper_ir.lowering.steps.base import StepBase
from wrapper_ir.ops import DebugMode, DebugPhase
from wrapper_ir.types import ScalarType, TensorType, Type
from wrapper_ir.values import Value

__all__ = [
    "CheckAlignment",
    "CheckCondition",
    "CheckFinite",
    "CheckGroups",
    "CheckInputs",
    "CheckLayout",
    "CheckReason",
    "CheckStep",
    "Comment",
    "Define",
    "ShowValue",
]


class CheckReason(enum.Enum):
    """Why a layout is checked: the program asserts it, it is an argument's, or that of what an operator returned."""

    ASSERTED = "asserted"
    ARGUMENT = "argument"
    RESULT = "result"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckInputs(StepBase):
    """Holds arguments of the call against what is known of them before any symbol has a value (WIR930, WIR931).
    Text: `check_inputs %x, %n`."""

    syntax: ClassVar[str] = "check_inputs {inputs}"

    inputs: tuple[tuple[Value[Type], Input], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckGroups(StepBase):
    """Fails unless this process belongs to the process groups of these names (WIR915), before anything runs: other
    processes may wait for what comes first. Text: `check_groups "tp"`."""

    syntax: ClassVar[str] = "check_groups {groups}"

    groups: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckLayout(StepBase):
    """Fails unless `value` has these sizes and strides (in elements; those of size-1 dimensions are free), and an address
    that is a multiple of `alignment` bytes where that is not 0 (WIR921).
    Text: `check_layout %x [s0, 4] [4, 1] asserted align(16) "input"`."""

    syntax: ClassVar[str] = (
        "check_layout {value} [{sizes}] [{strides}] {reason}< align({alignment})>< {message}>"
    )

    value: Value[TensorType]
    sizes: tuple[Expr, ...]
    strides: tuple[Expr, ...]
    reason: CheckReason
    alignment: int = 0
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckAlignment(StepBase):
    """Fails unless the address of `value` is a multiple of `alignment` bytes (WIR921).
    Text: `check_alignment %x, 16 "input"`."""

    syntax: ClassVar[str] = "check_alignment {value}, {alignment}< {message}>"

    value: Value[TensorType]
    alignment: int
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckCondition(StepBase):
    """Fails with `message` unless `condition` holds (WIR920). Text: `check s0 <= 64 "too many rows"`."""

    syntax: ClassVar[str] = "check {condition}< {message}>"

    condition: Expr
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckFinite(StepBase):
    """Fails where a floating-point tensor holds a NaN or an infinity (WIR922). Text: `check_finite %x "first"`."""

    syntax: ClassVar[str] = "check_finite {value}< {message}>"

    value: Value[TensorType]
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Define(StepBase):
    """Gives a symbol its value. Only here does an expression look at tensors. `fits` says that the value surely has
    64 bits; any other is checked. Text: `define s0 = size(%x, 0)`."""

    syntax: ClassVar[str] = "define {symbol:bare} = {expr}"

    symbol: str
    expr: Expr
    fits: bool


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


CheckStep = (
    CheckInputs
    | CheckGroups
    | CheckLayout
    | CheckAlignment
    | CheckCondition
    | CheckFinite
    | Define
    | ShowValue
    | Comment
)
