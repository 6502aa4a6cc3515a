"""Changes to the values of a stopped run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from wrapper_ir import ir
from wrapper_ir.errors import DebugError
from wrapper_ir.expr import Number
from wrapper_ir.plugins.protocols import Machine
from wrapper_ir_runtime.interp import Step
from wrapper_ir_tools.debugger.controller import Change
from wrapper_ir_tools.debugger.elements import element, write


def make_change(
    value: ir.Value, index: Sequence[int] | None, number: Number, machine: Machine[Any]
) -> Change:
    """Sets a scalar value, all elements of a tensor, or those at an index.

    Raises DebugError WIR959 for any other kind of value.
    """
    if ir.is_scalar(value) and index is None:
        return lambda step: step.frame.values.__setitem__(value, number)
    if not ir.is_tensor(value):
        raise DebugError("WIR959", f"%{value.name} is neither a tensor nor a number")

    def change(step: Step[Any]) -> None:
        target = step.frame.value(value)
        write(target if index is None else element(target, value, index, machine), number, machine)

    return change
