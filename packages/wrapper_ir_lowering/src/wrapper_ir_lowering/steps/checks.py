"""Steps that check at run time."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import ClassVar

from wrapper_ir import ir
from wrapper_ir.analysis.input_facts import Input, StorageInput
from wrapper_ir.artifact.group_ranks import GroupRanks
from wrapper_ir.expr import Expr
from wrapper_ir_lowering.steps.base import StepBase


class CheckReason(enum.Enum):
    """Reasons to check a layout: the program asserts it, or it is that of an argument or an operator's
    result.
    """

    ASSERTED = "asserted"
    ARGUMENT = "argument"
    RESULT = "result"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckInputs(StepBase):
    """Checks arguments of the call against facts that are known before any symbol has a value (WIR930,
    WIR931).

    Text: `check_inputs %x, %n`.
    """

    syntax: ClassVar[str] = "check_inputs {inputs}"

    inputs: tuple[tuple[ir.Value[ir.Type], Input], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckStorages(StepBase):
    """Fails unless the storages of these arguments contain all of their elements (WIR926): the caller may
    have resized them.

    Text: `check_storages %x, %y`.
    """

    syntax: ClassVar[str] = "check_storages {storages}"

    storages: tuple[tuple[ir.Value[ir.TensorType], StorageInput], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckGroups(StepBase):
    """Checks the process groups with these names before any other step, since other processes may wait for
    those.

    Fails if this process is not in one of the groups (WIR915), or is not one of `ranks` (WIR936). `device` is
    the program's. `sharing` lists the groups whose processes read each other's memory. These must run the
    same program, as determined by `manifest` (WIR933). Text: `check_groups "tp"`, `check_groups "0"
    sharing("0")`.
    """

    syntax: ClassVar[str] = "check_groups {groups}< sharing({sharing})>"

    groups: tuple[str, ...]
    device: ir.Device = ir.CPU
    ranks: tuple[GroupRanks, ...] = ()
    sharing: tuple[str, ...] = ()
    manifest: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckLayout(StepBase):
    """Fails unless `value` has these sizes and strides, and an aligned address (WIR921).

    Strides are in elements; those of dimensions of size 1 are free. The address must be a multiple of
    `alignment` bytes unless that is 0. Text: `check_layout %x [s0, 4] [4, 1] asserted align(16) "input"`.
    """

    syntax: ClassVar[str] = (
        "check_layout {value} [{sizes}] [{strides}] {reason}< align({alignment})>< {message}>"
    )

    value: ir.Value[ir.TensorType]
    sizes: tuple[Expr, ...]
    strides: tuple[Expr, ...]
    reason: CheckReason
    alignment: int = 0
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckResult(StepBase):
    """Fails unless an operator's result `value` has the declared properties that are not proved (WIR927).

    These are: it is a tensor (`defined`), its dtype, its device, and strided memory within its storage
    (`memory`). Engines may check all of them. `written` marks an existing tensor that an unknown operator may
    have given other memory. Its storage must then have `storage` bytes, if the program allocated it. Text:
    `check_result %x defined dtype device memory`, `check_result %x dtype device memory written
    storage(1024)`.
    """

    syntax: ClassVar[str] = (
        "check_result {value}< {defined}>< {dtype}>< {device}>< {memory}>< {written}>< storage({storage})>"
    )

    value: ir.Value[ir.TensorType]
    defined: bool
    dtype: bool
    device: bool
    memory: bool
    written: bool = False
    storage: Expr | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckApart(StepBase):
    """Fails if an operator's result `value` shares the storage of one of `operands` (WIR927).

    Its schema declares new memory, which may be written or reused in place. Text: `check_apart %y, %x`.
    """

    syntax: ClassVar[str] = "check_apart {value}, {operands}"

    value: ir.Value[ir.TensorType]
    operands: tuple[ir.Value[ir.TensorType], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckAlignment(StepBase):
    """Fails unless the address of `value` is a multiple of `alignment` bytes (WIR921).
    Text: `check_alignment %x, 16 "input"`."""

    syntax: ClassVar[str] = "check_alignment {value}, {alignment}< {message}>"

    value: ir.Value[ir.TensorType]
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
    """Fails if a floating-point tensor contains a NaN or an infinity (WIR922).

    Text: `check_finite %x "first"`.
    """

    syntax: ClassVar[str] = "check_finite {value}< {message}>"

    value: ir.Value[ir.TensorType]
    message: str = ""


CheckStep = (
    CheckInputs
    | CheckStorages
    | CheckGroups
    | CheckLayout
    | CheckResult
    | CheckApart
    | CheckAlignment
    | CheckCondition
    | CheckFinite
)
