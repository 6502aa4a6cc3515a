"""Finds the last use of each storage and each name of a function, in one pass over the effects."""

from __future__ import annotations

from collections.abc import Iterable, Set
from dataclasses import dataclass

from wrapper_ir import ir
from wrapper_ir.analysis.aliasing import NO_ROOTS, Aliasing
from wrapper_ir.analysis.memo import Analyses


@dataclass(frozen=True, slots=True)
class Liveness:
    """The result of the analysis for one function; positions are indices of ops, -1 is the entry.

    `storages` maps each root that the function must free to the last use of any tensor in it. Roots that are
    moved to a callee or to the caller are omitted. `names` maps each name to drop to its last use: tensors
    over memory that the function does not own or may not own, nested results, and handles.
    """

    aliasing: Aliasing
    storages: dict[ir.Value, int]
    names: dict[ir.Value, int]


def moved_roots(op: ir.Op, position: int, aliasing: Aliasing) -> tuple[ir.Value, ...]:
    """Owned roots that `op` moves to a callee or to the caller. A `reuse` moves no root out of the
    function."""
    effects = aliasing.effects[position]
    if not effects.moves or isinstance(op, ir.View):
        return ()
    roots = (root for value in effects.moves for root in aliasing.roots.get(value, NO_ROOTS))
    return tuple(dict.fromkeys(root for root in roots if root in aliasing.owned))


def _droppable(value: ir.Value, aliasing: Aliasing, constants: Set[ir.Value]) -> bool:
    """Returns whether a `Drop` ends `value`: it has no memory, or memory that this function may not own."""
    match value.type:
        case ir.TupleType() | ir.OpaqueType():
            return value not in constants
        case ir.TensorType():
            if value in aliasing.uncertain:
                return True
            roots = aliasing.roots.get(value, NO_ROOTS)
            return not any(
                r in constants or (r in aliasing.owned and r not in aliasing.escaped) for r in roots
            )
        case _:
            return False


def _live_roots(value: ir.Value, aliasing: Aliasing) -> Iterable[ir.Value]:
    """The roots that a use of `value` keeps alive, including the storages that contain its slots."""
    roots = aliasing.roots.get(value, NO_ROOTS)
    return [outer for root in roots for outer in aliasing.chain(root)] if aliasing.hosts else roots


def analyse_liveness(function: ir.Function, analyses: Analyses) -> Liveness:
    """Runs the analysis; linear in the number of ops. `Free` and `Drop` do not count as uses."""
    aliasing = analyses.aliasing(function)
    constants = analyses.constant_values
    roots = aliasing.roots
    last = dict(aliasing.owned)
    names: dict[ir.Value, int] = {}
    moved: set[ir.Value] = set()
    in_flight: dict[ir.Value, tuple[ir.Value, ...]] = {}
    for param in function.params:
        if ir.is_tensor(param.value) and param.ownership is ir.Ownership.BORROWED:
            names[param.value] = -1
    for position, op in enumerate(function.body):
        match op:
            case ir.Drop() | ir.Free():
                continue
            case ir.Wait():
                operands = (*ir.operands(op), *in_flight.get(op.source, ()))
            case _:
                operands = ir.operands(op)
        for result, operand in aliasing.effects[position].holds:
            in_flight[result] = (*in_flight.get(result, ()), operand)
        for value in operands:
            if value in names:
                names[value] = position
            for root in _live_roots(value, aliasing):
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
        moved.update(moved_roots(op, position, aliasing))
    if function.last_return is not None:
        moved.update(ir.operands(function.last_return))
    storages = {r: p for r, p in last.items() if r not in moved and r not in aliasing.escaped}
    escaped = {r: last[r] for r in last if r in aliasing.escaped and r not in moved}
    return Liveness(aliasing, storages, {v: p for v, p in (names | escaped).items() if v not in moved})
