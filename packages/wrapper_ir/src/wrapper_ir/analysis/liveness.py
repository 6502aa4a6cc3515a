"""The last use of each storage and each name of a function: one pass over the effects."""

from __future__ import annotations

from collections.abc import Iterable, Set
from dataclasses import dataclass

from wrapper_ir import ir
from wrapper_ir.analysis.aliasing import NO_ROOTS, Aliasing
from wrapper_ir.analysis.memo import Analyses


@dataclass(frozen=True, slots=True)
class Liveness:
    """The result of the analysis for one function; positions are indices of ops, -1 stands for the entry.

    `storages` gives, for each root that the function must free, the last position at which any tensor of it is
    used; roots that are moved (into a callee, or to the caller) are not in it. `names` gives the last use of each
    name to drop: tensors over bytes that the function does not own or may not own, nested results, handles.
    """

    aliasing: Aliasing
    storages: dict[ir.Value, int]
    names: dict[ir.Value, int]


def moved_roots(op: ir.Op, position: int, aliasing: Aliasing) -> tuple[ir.Value, ...]:
    """Owned roots that `op` moves to a callee or to the caller. A `reuse` moves nothing out of the function."""
    effects = aliasing.effects[position]
    if not effects.moves or isinstance(op, ir.View):
        return ()
    found: dict[ir.Value, None] = {}
    for value in effects.moves:
        for root in aliasing.roots.get(value, NO_ROOTS):
            if root in aliasing.owned:
                found[root] = None
    return tuple(found)


def _droppable(value: ir.Value, aliasing: Aliasing, constants: Set[ir.Value]) -> bool:
    """Whether `value` is a name that a `Drop` ends: its bytes, if any, are not surely this function's own."""
    if isinstance(value.type, ir.TupleType | ir.OpaqueType):
        return value not in constants
    if not ir.is_tensor(value):
        return False
    if value in aliasing.uncertain:
        return True
    roots = aliasing.roots.get(value, NO_ROOTS)
    return not any(r in aliasing.owned and r not in aliasing.escaped for r in roots) and not any(
        r in constants for r in roots
    )


def _held(value: ir.Value, aliasing: Aliasing) -> Iterable[ir.Value]:
    """The roots that a use of `value` needs: those of slots with what they lie in."""
    roots = aliasing.roots.get(value, NO_ROOTS)
    return [outer for root in roots for outer in aliasing.chain(root)] if aliasing.hosts else roots


def analyse_liveness(function: ir.Function, analyses: Analyses) -> Liveness:
    """Runs the analysis; linear in the number of ops. `Free` and `Drop` do not count as uses."""
    aliasing = analyses.aliasing(function)
    constants = analyses.constant_values
    roots = aliasing.roots
    last = dict(aliasing.owned)
    names: dict[ir.Value, int] = {}
    kept: set[ir.Value] = set()
    in_flight: dict[ir.Value, tuple[ir.Value, ...]] = {}
    for param in function.params:
        tensor = ir.is_tensor(param.value)
        if tensor and param.ownership is ir.Ownership.BORROWED:
            names[param.value] = -1
    for position, op in enumerate(function.body):
        if isinstance(op, ir.EndOp):
            continue
        used = ir.operands(op)
        if isinstance(op, ir.CollectiveStart):
            for result, held in aliasing.effects[position].holds:
                in_flight[result] = (*in_flight.get(result, ()), held)
        elif isinstance(op, ir.Wait):
            used = (*used, *in_flight.get(op.source, ()))
        for value in used:
            if value in names:
                names[value] = position
            for root in _held(value, aliasing):
                if root in last:
                    last[root] = position
        for value in ir.results(op):
            if value in constants:
                continue
            if _droppable(value, aliasing, constants):
                names[value] = position
            for root in roots.get(value, NO_ROOTS):
                if root in last:
                    last[root] = position
        kept.update(moved_roots(op, position, aliasing))
        if isinstance(op, ir.Return):
            kept.update(used)
    storages = {r: p for r, p in last.items() if r not in kept and r not in aliasing.escaped}
    escaped = {r: last[r] for r in last if r in aliasing.escaped and r not in kept}
    return Liveness(aliasing, storages, {v: p for v, p in (names | escaped).items() if v not in kept})
