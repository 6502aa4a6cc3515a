"""Storages in memory of a group that may be slots of a shared pool."""

from __future__ import annotations

from collections import Counter
from collections.abc import Set

from wrapper_ir import ir
from wrapper_ir.analysis.aliasing import NO_ROOTS
from wrapper_ir.analysis.memo import Analyses
from wrapper_ir.analysis.symmetric import lasting_arguments


def shareable_group_memory(function: ir.Function, analyses: Analyses) -> Set[ir.Value]:
    """Returns storages in symmetric or registered memory that may share bytes.

    No other process may use their bytes after the ops that use them. Callees must not receive them, and no
    other allocation of the program may have their ids.
    """
    allocations = [op.result for op in function.ops_of(ir.AllocStorage) if op.result.type.is_group_memory]
    if not allocations:
        return frozenset()
    counts = Counter(op.result.type.space for op in analyses.program.ops_of(ir.AllocStorage))
    storages: set[ir.Value] = {storage for storage in allocations if counts[storage.type.space] == 1}
    roots = analyses.aliasing(function).roots
    for op in function.without(ir.Free, ir.View).body:
        lent = [value for value in ir.operands(op) if ir.is_storage(value)]
        for value in (*lent, *lasting_arguments(op, analyses.extern_info)):
            storages.difference_update(roots.get(value, NO_ROOTS))
    return storages
