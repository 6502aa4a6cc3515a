"""Computes the byte offsets of tensors in their storages, and of slots in their pools."""

from __future__ import annotations

from collections.abc import Mapping

from wrapper_ir import ir
from wrapper_ir.analysis.memo import Analyses
from wrapper_ir.expr import Expr, Int

_ZERO = Int(0)

RootOffset = tuple[ir.Value, Expr]
"""A root and a byte offset from its start (for a tensor root, from its first element)."""


def tensor_places(function: ir.Function, analyses: Analyses) -> Mapping[ir.Value, RootOffset]:
    """The places of roots, and of views whose storage is certain; those of other tensors are unknown."""
    aliasing = analyses.aliasing(function)
    places: dict[ir.Value, RootOffset] = {
        root: (root, _ZERO) for roots in aliasing.roots.values() for root in roots
    }
    places |= {value: (aliasing.roots[value][0], Int(start)) for value, start in aliasing.starts.items()}
    for op, effects in zip(function.body, aliasing.effects, strict=True):
        match op:
            case ir.CollectiveStart() | ir.Wait():  # the same window of the same storage
                places |= {new: places[old] for new, old in effects.aliases if old in places}
            case ir.View() if op.source not in aliasing.uncertain:
                default = (op.source, _ZERO) if ir.is_storage(op.source) else None
                place = default or places.get(op.source)
                if place is not None:
                    places[op.result] = (place[0], place[1] + op.offset)
    return places


def slot_places(function: ir.Function, analyses: Analyses) -> Mapping[ir.Value, RootOffset]:
    """The outermost storage that contains each slot, and the slot's byte offset in it."""
    places: dict[ir.Value, RootOffset] = {}
    for op in function.ops_of(ir.Slot):
        root, start = places.get(op.pool, (op.pool, _ZERO))
        places[op.result] = (root, start + op.offset)
    return places
