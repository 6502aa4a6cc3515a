"""Which values an op computes, and which values of a function have been computed before an op."""

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
"""Ops that compute nothing: memory without content, other names for content, ends."""


def products(function: Function, position: int, analyses: Analyses) -> tuple[Value, ...]:
    """The tensors and numbers that the op at `position` computes: what it defines with content, and what it writes."""
    op = function.body[position]
    if isinstance(op, _NO_CONTENT):
        return ()
    written = analyses.aliasing(function).effects[position].writes
    found = dict.fromkeys((*results(op), *written))
    return tuple(v for v in found if isinstance(v.type, TensorType | ScalarType))


def computing_position(function: Function, position: int) -> int:
    """The op that has computed what the op at `position` gives: where that takes a value out of a nested result, the call."""
    op = function.body[position]
    if not isinstance(op, ops.Unpack):
        return position
    return next((p for p in range(position) if op.source in results(function.body[p])), position)


def computed_at(function: Function, analyses: Analyses) -> Mapping[Value, int]:
    """By tensor, the position of the op after which it holds what the program has computed (-1: parameters).

    Memory that nothing has written yet, and old content seen as another dtype, are not in it: they may hold anything.
    """
    found: dict[Value, int] = {p.value: -1 for p in function.params if is_tensor(p.value)}
    constants = analyses.constant_values
    for position, op in enumerate(function.body):
        if isinstance(op, ops.View) and isinstance(op.source.type, TensorType):
            known = op.source in found or op.source in constants
            if known and op.source.type.dtype is op.result.type.dtype and op.mode is ViewMode.ALIAS:
                found[op.result] = position
        for value in products(function, position, analyses):
            if is_tensor(value) and value not in constants:
                found.setdefault(value, position)
    return found
