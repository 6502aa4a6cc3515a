"""Memory that several streams use."""

from __future__ import annotations

from collections.abc import Set

from wrapper_ir.aliasing import NO_ROOTS
from wrapper_ir.analyses import Analyses
from wrapper_ir.ops import AllocStorage, CallExtern, CollectiveStart, Copy, Launch
from wrapper_ir.program import Function
from wrapper_ir.structure import operands, results
from wrapper_ir.values import Value

__all__ = ["crossing_streams"]

_Queued = AllocStorage | CallExtern | CollectiveStart | Copy | Launch


def crossing_streams(function: Function, analyses: Analyses) -> Set[Value]:
    """Roots, and names of tensors over them, that ops of several streams make or use. Parameters come from the current
    stream."""
    aliasing = analyses.aliasing(function)
    queued = [op for op in function.body if isinstance(op, _Queued)]
    if not any(op.stream for op in queued):
        return frozenset()
    streams: dict[Value, set[int]] = {p.value: {0} for p in function.params}
    for op in queued:
        for value in (*results(op), *operands(op)):
            held = [outer for root in aliasing.roots.get(value, NO_ROOTS) for outer in aliasing.chain(root)]
            for root in (value, *held):
                streams.setdefault(root, set()).add(op.stream)
    crossing = {value for value, used in streams.items() if len(used) > 1}
    named = {v for v, roots in aliasing.roots.items() if not crossing.isdisjoint(roots)}
    return crossing | named
