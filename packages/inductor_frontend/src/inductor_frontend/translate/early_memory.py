"""Memory that several streams write comes from the current stream, before the others begin.

A stream's memory may still be in use there by what had it before, which another stream does not wait for. Inductor
allocates where the first op runs that writes it. What one stream writes, others read only when they have waited for it.
"""

from __future__ import annotations

import dataclasses

from wrapper_ir import ir
from wrapper_ir.analysis.aliasing import NO_ROOTS
from wrapper_ir.analysis.memo import Analyses
from wrapper_ir.analysis.streams import crossing_streams
from wrapper_ir.expr import Expr


def early_memory(analyses: Analyses) -> ir.Program:
    """The program with such memory allocated where its streams begin, as far as sizes are known there."""
    main, *rest = analyses.program.functions
    return analyses.program.with_functions((_early(main, analyses), *rest))


def _early(function: ir.Function, analyses: Analyses) -> ir.Function:
    if not any(isinstance(op, ir.RecordEvent) for op in function.body):
        return function
    crossing = _written_apart(function, analyses)
    known = {symbol for p in function.params for symbol in _sizes(p.value.type)}
    storages = {
        op.result
        for op in function.ops_of(ir.AllocStorage)
        if op.result in crossing and _sizes(op.result.type) <= known
    }

    def early(op: ir.Op) -> bool:
        """With its tensor, since emitters may allocate where that is made."""
        if isinstance(op, ir.View):
            return op.source in storages and _sizes(op.result.type) | op.offset.free_symbols <= known
        return isinstance(op, ir.AllocStorage) and op.result in storages

    moved = [
        dataclasses.replace(op, stream=0) if isinstance(op, ir.AllocStorage) else op
        for op in function.body
        if early(op)
    ]
    rest = [op for op in function.body if not early(op)]
    if not moved:
        return function
    begin = next(i for i, op in enumerate(rest) if isinstance(op, ir.RecordEvent))
    return function.with_body((*rest[:begin], *moved, *rest[begin:]))


def _written_apart(function: ir.Function, analyses: Analyses) -> set[ir.Value]:
    """Storages that another stream writes than the one that they come from."""
    crossing = analyses.get_for(function, crossing_streams)
    aliasing = analyses.aliasing(function)
    streams: dict[ir.Value, int] = {op.result: op.stream for op in function.ops_of(ir.AllocStorage)}
    found: set[ir.Value] = set()
    for op, effects in zip(function.body, aliasing.effects, strict=True):
        if crossing and isinstance(op, ir.Launch | ir.CallExtern | ir.Copy):
            roots = {r for value in effects.writes for r in aliasing.roots.get(value, NO_ROOTS)}
            found |= {r for r in roots & streams.keys() & crossing if streams[r] != op.stream}
    return found


def _sizes(type: ir.Type) -> frozenset[str]:
    """The symbols of a type's sizes."""
    match type:
        case ir.TensorType():
            sizes: tuple[Expr, ...] = (*type.sizes, *type.strides)
        case ir.StorageType():
            sizes = (type.nbytes,)
        case _:
            sizes = ()
    return frozenset[str]().union(*(x.free_symbols for x in sizes))
