"""Which storages a pass may let others take over, or replace by others."""

from __future__ import annotations

from collections.abc import Mapping

from wrapper_ir.aliasing import NO_ROOTS, Aliasing
from wrapper_ir.analyses import Analyses
from wrapper_ir.analysis.streams import crossing_streams
from wrapper_ir.ops import (
    AllocPurpose,
    AllocStorage,
    Drop,
    EnterMemoryPool,
    Free,
    ResizeStorage,
    SetStorage,
    Slot,
    View,
    ViewMode,
    ZeroMode,
)
from wrapper_ir.program import Function
from wrapper_ir.structure import operands
from wrapper_ir.values import Value, is_storage

__all__ = ["first_uses", "may_take_over", "reusable_storages"]


def reusable_storages(function: Function, analyses: Analyses) -> dict[Value, AllocStorage]:
    """The storages that hold nothing at first, are used as tensors alone, and on one stream, with the ops that make them; none
    where memory is moved under tensors, or is of torch's pools."""
    if any(isinstance(op, EnterMemoryPool | ResizeStorage | SetStorage) for op in function.body):
        return {}
    crossing = analyses.get_for(function, crossing_streams)
    found: dict[Value, AllocStorage] = {
        op.result: op
        for op in function.body
        if isinstance(op, AllocStorage)
        and op.purpose is AllocPurpose.PLAIN
        and op.zero is ZeroMode.NONE
        and not op.result.type.is_symmetric
        and op.result not in crossing
    }
    for op in function.body:
        if not isinstance(op, Free) and not (isinstance(op, View) and op.mode is ViewMode.ALIAS):
            for value in filter(is_storage, operands(op)):
                found.pop(value, None)
    return found


def first_uses(function: Function, aliasing: Aliasing) -> Mapping[Value, int]:
    """Where each root is first given to an op that does more than name it."""
    found: dict[Value, int] = {}
    for position, op in enumerate(function.body):
        if not isinstance(op, AllocStorage | Slot | View | Free | Drop):
            for value in operands(op):
                for root in aliasing.roots.get(value, NO_ROOTS):
                    found.setdefault(root, position)
    return found


def may_take_over(new: AllocStorage, old: AllocStorage) -> bool:
    """Whether the first storage's tensors may lie in the second one instead: as many bytes, for all sizes, of the same memory
    and stream, aligned as far."""
    a, b = new.result.type, old.result.type
    return (
        (a.nbytes, a.device, a.space) == (b.nbytes, b.device, b.space)
        and new.stream == old.stream
        and b.alignment % a.alignment == 0
    )
