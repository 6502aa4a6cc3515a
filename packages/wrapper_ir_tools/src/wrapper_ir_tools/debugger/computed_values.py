"""Values that an op computes, and values that were computed before an op."""

from __future__ import annotations

from collections.abc import Mapping

from wrapper_ir import ir
from wrapper_ir.analysis.memo import Analyses

_NO_CONTENT = (ir.AllocStorage, ir.Slot, ir.View, ir.RecordEvent, ir.Free, ir.Drop, ir.Return)
"""Ops that compute nothing: uninitialized memory, aliases, ends of lifetimes."""


def computed_values(function: ir.Function, position: int, analyses: Analyses) -> tuple[ir.Value, ...]:
    """The tensors and numbers that the op at `position` computes: its results with content, and what it
    writes.
    """
    op = function.body[position]
    if isinstance(op, _NO_CONTENT):
        return ()
    outputs = analyses.aliasing(function).effects[position].writes
    values = dict.fromkeys((*ir.results(op), *outputs))
    return tuple(v for v in values if ir.is_tensor(v) or ir.is_scalar(v))


def computing_position(function: ir.Function, position: int) -> int:
    """Position of the op that computed the result at `position`: for an `unpack`, the call."""
    op = function.body[position]
    if not isinstance(op, ir.Unpack):
        return position
    return next((p for p in range(position) if op.source in ir.results(function.body[p])), position)


def computed_at(function: ir.Function, analyses: Analyses) -> Mapping[ir.Value, int]:
    """Maps each tensor to the position of the op after which its content is computed (-1: parameters).

    Excluded are unwritten memory and old content viewed as another dtype, whose values are arbitrary.
    """
    positions: dict[ir.Value, int] = {p.value: -1 for p in function.params if ir.is_tensor(p.value)}
    constants = analyses.constant_values
    for position, op in enumerate(function.body):
        if isinstance(op, ir.View) and ir.is_tensor(op.source):
            has_content = op.source in positions or op.source in constants
            if has_content and op.source.type.dtype is op.result.type.dtype and op.mode is ir.ViewMode.ALIAS:
                positions[op.result] = position
        for value in computed_values(function, position, analyses):
            if ir.is_tensor(value) and value not in constants:
                positions.setdefault(value, position)
    return positions
