"""Where in its storage each tensor of a function starts, and each slot in what it lies in."""

from __future__ import annotations

from collections.abc import Mapping

from wrapper_ir import ir
from wrapper_ir.analysis.memo import Analyses
from wrapper_ir.expr import Expr, Int

_ZERO = Int(0)

RootOffset = tuple[ir.Value, Expr]
"""A root and a byte offset from its start (for a tensor root: from its first element)."""


def tensor_places(function: ir.Function, analyses: Analyses) -> Mapping[ir.Value, RootOffset]:
    """Places of all views of certain storages; other tensors are roots, or their place is not known."""
    aliasing = analyses.aliasing(function)
    places: dict[ir.Value, RootOffset] = {
        root: (root, _ZERO) for roots in aliasing.roots.values() for root in roots
    }
    places |= {value: (aliasing.roots[value][0], Int(start)) for value, start in aliasing.starts.items()}
    for op, effects in zip(function.body, aliasing.effects, strict=True):
        if isinstance(op, ir.CollectiveStart | ir.Wait):  # the same window of the same storage
            places |= {new: places[old] for new, old in effects.aliases if old in places}
        if not isinstance(op, ir.View) or op.source in aliasing.uncertain:
            continue
        root, start = (op.source, _ZERO) if ir.is_storage(op.source) else places.get(op.source, (None, _ZERO))
        if root is not None:
            places[op.result] = (root, start + op.offset)
    return places


def slot_places(function: ir.Function, analyses: Analyses) -> Mapping[ir.Value, RootOffset]:
    """The outermost storage that each slot lies in, and the byte of it that the slot starts at."""
    places: dict[ir.Value, RootOffset] = {}
    for op in function.body:
        if isinstance(op, ir.Slot):
            root, start = places.get(op.pool, (op.pool, _ZERO))
            places[op.result] = (root, start + op.offset)
    return places
