"""Values that an op computes, and values that were computed before an op."""

from __future__ import annotations

from collections.abc import Mapping

from wrapper_ir.analysis.memo import Analyses
from wrapper_ir.ir import ops
from wrapper_ir.ir.ops import ViewMode
from wrapper_ir.ir.program import Function
from wrapper_ir.ir.structure import results
from wrapper_ir.ir.types import ScalarType, TensorType
from wrapper_ir.ir.values import Value, is_tensor

_NO_CONTENT = (ops.AllocStorage, ops.Slot, ops.View, ops.RecordEvent, ops.Free, ops.Drop, ops.Return)
"""Ops that compute nothing: uninitialized memory, aliases, ends of lifetimes."""


def products(function: Function, position: int, analyses: Analyses) -> tuple[Value, ...]:
    """The tensors and numbers that the op at `position` computes: its results with content, and what it
    writes.
    """
    op = function.body[position]
    if isinstance(op, _NO_CONTENT):
        return ()
    outputs = analyses.aliasing(function).effects[position].writes
    values = dict.fromkeys((*results(op), *outputs))
    return tuple(v for v in values if isinstance(v.type, TensorType | ScalarType))


def computing_position(function: Function, position: int) -> int:
    """Position of the op that computed the result at `position`: for an `unpack`, the call."""
    op = function.body[position]
    if not isinstance(op, ops.Unpack):
        return position
    return next((p for p in range(position) if op.source in results(function.body[p])), position)


def computed_at(function: Function, analyses: Analyses) -> Mapping[Value, int]:
    """Maps each tensor to the position of the op after which its content is computed (-1: parameters).

    Excluded are unwritten memory and old content viewed as another dtype, whose values are arbitrary.
    """
    positions: dict[Value, int] = {p.value: -1 for p in function.params if is_tensor(p.value)}
    constants = analyses.constant_values
    for position, op in enumerate(function.body):
        if isinstance(op, ops.View) and isinstance(op.source.type, TensorType):
            has_content = op.source in positions or op.source in constants
            if has_content and op.source.type.dtype is op.result.type.dtype and op.mode is ViewMode.ALIAS:
                positions[op.result] = position
        for value in products(function, position, analyses):
            if is_tensor(value) and value not in constants:
                positions.setdefault(value, position)
    return positions
