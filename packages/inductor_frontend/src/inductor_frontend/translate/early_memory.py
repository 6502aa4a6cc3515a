"""Allocates memory that several streams write on the current stream, before the other streams begin.

Memory of a stream may still be in use there by its previous owner, for which another stream does not wait.
Inductor allocates at the first op that writes the memory. Streams that only read it wait for the writer
anyway.
"""

from __future__ import annotations

import dataclasses

from wrapper_ir import ir
from wrapper_ir.analysis.aliasing import NO_ROOTS
from wrapper_ir.analysis.memo import Analyses
from wrapper_ir.analysis.streams import crossing_streams
from wrapper_ir.expr import Expr


def early_memory(analyses: Analyses) -> ir.Program:
    """Returns the program with such memory allocated where streams begin, if its size is defined there."""
    main, *rest = analyses.program.functions
    return analyses.program.with_functions((_early(main, analyses), *rest))


def _early(function: ir.Function, analyses: Analyses) -> ir.Function:
    if not any(function.ops_of(ir.RecordEvent)):
        return function
    crossing = _written_apart(function, analyses)
    defined = {symbol for p in function.params for symbol in _sizes(p.value.type)}
    storages = {
        op.result
        for op in function.ops_of(ir.AllocStorage)
        if op.result in crossing and _sizes(op.result.type) <= defined
    }

    def early(op: ir.Op) -> bool:
        """Selects a storage with its tensor, since emitters may allocate at the View."""
        match op:
            case ir.View():
                return op.source in storages and _sizes(op.result.type) | op.offset.free_symbols <= defined
            case ir.AllocStorage():
                return op.result in storages
            case _:
                return False

    hoisted = [
        dataclasses.replace(op, stream=0) if isinstance(op, ir.AllocStorage) else op
        for op in function.body
        if early(op)
    ]
    rest = [op for op in function.body if not early(op)]
    if not hoisted:
        return function
    begin = next(i for i, op in enumerate(rest) if isinstance(op, ir.RecordEvent))
    return function.with_body((*rest[:begin], *hoisted, *rest[begin:]))


def _written_apart(function: ir.Function, analyses: Analyses) -> set[ir.Value]:
    """Returns storages that are written on another stream than the one that allocates them."""
    crossing = analyses.get_for(function, crossing_streams)
    aliasing = analyses.aliasing(function)
    streams: dict[ir.Value, int] = {op.result: op.stream for op in function.ops_of(ir.AllocStorage)}
    storages: set[ir.Value] = set()
    for op, effects in zip(function.body, aliasing.effects, strict=True):
        if crossing and isinstance(op, ir.Launch | ir.CallExtern | ir.Copy):
            roots = {r for value in effects.writes for r in aliasing.roots.get(value, NO_ROOTS)}
            storages |= {r for r in roots & streams.keys() & crossing if streams[r] != op.stream}
    return storages


def _sizes(type: ir.Type) -> frozenset[str]:
    """Returns the symbols of a type's sizes."""
    match type:
        case ir.TensorType():
            sizes: tuple[Expr, ...] = (*type.sizes, *type.strides)
        case ir.StorageType():
            sizes = (type.nbytes,)
        case _:
            sizes = ()
    return frozenset[str]().union(*(x.free_symbols for x in sizes))
