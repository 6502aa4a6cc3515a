"""Puts the results of a program into one allocation, for callers that keep its results together."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import replace

from wrapper_ir import ir
from wrapper_ir.analysis.liveness import analyse_liveness
from wrapper_ir.analysis.memo import Analyses
from wrapper_ir.analysis.sizes import Sizes
from wrapper_ir.expr import Int, as_int
from wrapper_ir_passes.analysis.memory import held_outside
from wrapper_ir_passes.memory.pool_candidates import fresh_pool_name
from wrapper_ir_passes.memory.reuse_candidates import returned_storages, reusable_storages, reused_roots
from wrapper_ir_passes.planner.buffers import aligned


def join_results(function: ir.Function, analyses: Analyses, sizes: Sizes) -> ir.Function:
    """Returns the function with one storage for its results of fixed sizes on one device and stream,
    allocated with the first.

    A result is included only if its early allocation does not increase the peak. Raises ExpressionError if
    another size has no value under the hints.
    """
    groups: dict[Hashable, list[ir.AllocStorage]] = {}
    allocations = {op.result: at for at, op in function.positions_of(ir.AllocStorage)}
    for op in _returned(function, analyses):
        type = op.result.type
        if as_int(type.nbytes) is not None:
            groups.setdefault((type.device, type.space, op.stream), []).append(op)
    outside = held_outside(function, analyses, sizes, frozenset()) if groups else []
    limit = max(outside, default=0)
    names = {v.name for v in (*ir.definitions(function), *analyses.constant_values)}
    places: dict[ir.Value, tuple[ir.Value[ir.StorageType], int]] = {}
    begins: dict[ir.Value, ir.AllocStorage] = {}
    for group in groups.values():
        first, *rest = sorted(group, key=lambda op: allocations[op.result])
        members, total = [(first, 0)], sizes.bytes_of(first.result)
        for op in rest:
            nbytes, place = sizes.bytes_of(op.result), aligned(total, op.result.type.alignment)
            grown = list(outside)
            for t in range(allocations[first.result], len(outside)):
                grown[t] += place - total + (nbytes if t < allocations[op.result] else 0)
            if max(grown) <= limit:
                outside, total = grown, place + nbytes
                members.append((op, place))
        if len(members) > 1:
            alignment = max(op.result.type.alignment for op, _ in members)
            type = replace(first.result.type, nbytes=Int(total), alignment=alignment)
            joined = ir.Value(fresh_pool_name(names), type)
            begins[first.result] = replace(first, result=joined)
            places |= {op.result: (joined, place) for op, place in members}
    return function.with_body(_rewritten(function, begins, places)) if places else function


def _returned(function: ir.Function, analyses: Analyses) -> list[ir.AllocStorage]:
    """The allocations of results, each once.

    Those that are reused are excluded, since a reuse ends all tensors of a storage.
    """
    live, storages = analyses.get_for(function, analyse_liveness), reusable_storages(function, analyses)
    names = storages.keys() - reused_roots(function, live.aliasing)
    return [storages[root] for root in returned_storages(function, live, names)]


def _rewritten(
    function: ir.Function,
    begins: dict[ir.Value, ir.AllocStorage],
    places: dict[ir.Value, tuple[ir.Value[ir.StorageType], int]],
) -> Iterator[ir.Op]:
    for op in function.body:
        match op:
            case ir.AllocStorage(result=result) if result in places:
                if result in begins:
                    yield begins[result]
            case ir.View(source=source, offset=offset) if source in places:
                storage, place = places[source]
                yield replace(op, source=storage, offset=offset + place)
            case _:
                yield op
