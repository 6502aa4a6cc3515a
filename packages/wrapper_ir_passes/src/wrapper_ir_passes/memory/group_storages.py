"""Which storages in memory of a group may be slots of a pool that others have, too."""

from __future__ import annotations

from collections import Counter
from collections.abc import Set

from wrapper_ir.analysis.aliasing import NO_ROOTS
from wrapper_ir.analysis.memo import Analyses
from wrapper_ir.analysis.symmetric import lasting_arguments
from wrapper_ir.ir.ops import AllocStorage, Free, View
from wrapper_ir.ir.program import Function
from wrapper_ir.ir.structure import operands
from wrapper_ir.ir.values import Value, is_storage


def shareable_group_memory(function: Function, analyses: Analyses) -> Set[Value]:
    """Storages in symmetric or registered memory of which no other process uses bytes when the ops that are given them are over, that callees
    are not lent, and whose ids no other allocation of the program takes."""
    made = [
        op.result for op in function.body if isinstance(op, AllocStorage) and op.result.type.is_group_memory
    ]
    if not made:
        return frozenset()
    counts = Counter(op.result.type.space for op in analyses.program.ops if isinstance(op, AllocStorage))
    found: set[Value] = {storage for storage in made if counts[storage.type.space] == 1}
    roots = analyses.aliasing(function).roots
    for op in function.body:
        if isinstance(op, Free | View):
            continue
        lent = [value for value in operands(op) if is_storage(value)]
        for value in (*lent, *lasting_arguments(op, analyses.extern_info)):
            found.difference_update(roots.get(value, NO_ROOTS))
    return found
