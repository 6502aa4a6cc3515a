"""Shows or saves values for `DebugValue`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wrapper_ir.ops import DebugValue
from wrapper_ir.protocols import Machine
from wrapper_ir.runtime.debug import DebugRecord, place_text, report
from wrapper_ir.types import TensorType
from wrapper_ir.values import Value

__all__ = ["show_values"]


# Any: the machine's tensors and numbers
def show_values(op: DebugValue, held: Mapping[str, Any], machine: Machine[Any]) -> None:
    """Prints or saves, as the op says."""
    for value in op.values:
        report(_record(value, held[value.name], machine), op.mode, place_text(op.label, op.phase, op.kernel))


def _record(value: Value, held: Any, machine: Machine[Any]) -> DebugRecord:
    if not isinstance(value.type, TensorType) or not machine.is_tensor(held):
        return DebugRecord(name=value.name, describe=lambda: repr(held))
    return DebugRecord(
        name=value.name,
        dtype=value.type.dtype,
        sizes=tuple(machine.sizes(held)),
        strides=tuple(machine.strides(held)),
        describe=lambda: machine.describe(held),
        data=lambda: machine.data(held),
    )
