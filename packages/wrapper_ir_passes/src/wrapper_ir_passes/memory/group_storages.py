"""Which storages in memory of a group may be slots of a pool that others have, too."""

from __future__ import annotations

from collections import Counter
from collections.abc import Set

from wrapper_ir import ir
from wrapper_ir.analysis.aliasing import NO_ROOTS
from wrapper_ir.analysis.memo import Analyses
from wrapper_ir.analysis.symmetric import lasting_arguments


def shareable_group_memory(function: ir.Function, analyses: Analyses) -> Set[ir.Value]:
    """Storages in symmetric or registered memory of which no other process uses bytes when the ops that are given them are over, that callees
    are not lent, and whose ids no other allocation of the program takes."""
    made = [op.result for op in function.ops_of(ir.AllocStorage) if op.result.type.is_group_memory]
    if not made:
        return frozenset()
    counts = Counter(op.result.type.space for op in analyses.program.ops_of(ir.AllocStorage))
    found: set[ir.Value] = {storage for storage in made if counts[storage.type.space] == 1}
    roots = analyses.aliasing(function).roots
    for op in function.body:
        if isinstance(op, ir.Free | ir.View):
            continue
        lent = [value for value in ir.operands(op) if ir.is_storage(value)]
        for value in (*lent, *lasting_arguments(op, analyses.extern_info)):
            found.difference_update(roots.get(value, NO_ROOTS))
    return found
