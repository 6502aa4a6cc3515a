"""Delays waits for collectives until their data is needed, to overlap other work with the communication."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import ClassVar, NamedTuple

from wrapper_ir import ir
from wrapper_ir.analysis.aliasing import NO_ROOTS, Aliasing
from wrapper_ir.analysis.memo import Analyses
from wrapper_ir.plugins.passes import Pass
from wrapper_ir_passes.cleanup.derive_frees import DeriveFrees, derive_frees, strip_frees
from wrapper_ir_passes.collectives.wait_motion import may_pass

_WORK = ir.CallExtern | ir.Copy | ir.Launch


@dataclasses.dataclass(frozen=True)
class SinkWaits(Pass):
    """Moves each wait right before the first op that needs its data, and derives lifetimes again.

    A wait never passes another collective, wait, or op with an effect beyond memory: all processes must start
    and finish them in one order. It stays unless it would pass a kernel, a copy or an operator call: nothing
    would overlap.
    """

    name: ClassVar[str] = "sink-waits"
    repairs: ClassVar[frozenset[str]] = DeriveFrees.repairs

    def transform(self, analyses: Analyses) -> ir.Program:
        """The program with later waits."""
        stripped = analyses.after(strip_frees(analyses.program))
        functions = [_sunk(f, stripped) for f in stripped.program.functions]
        return derive_frees(stripped.program.with_functions(functions))


class _InFlight(NamedTuple):
    """Storages that a collective uses until its wait: it writes `busy`, and reads `lent`, which others may
    read too.
    """

    busy: frozenset[ir.Value]
    lent: frozenset[ir.Value]


def _sunk(function: ir.Function, analyses: Analyses) -> ir.Function:
    body = list(function.body)
    moved = False
    for at, wait in reversed([*function.positions_of(ir.Wait)]):  # earlier positions stay valid
        in_flight = _in_flight(wait, function, analyses)
        stop = _first_need(wait, at, body, in_flight, analyses.aliasing(function), analyses)
        if any(isinstance(op, _WORK) for op in body[at + 1 : stop]):
            body[at:stop] = [*body[at + 1 : stop], wait]
            moved = True
    return function.with_body(body) if moved else function


def _in_flight(wait: ir.Wait, function: ir.Function, analyses: Analyses) -> _InFlight:
    aliasing = analyses.aliasing(function)
    busy, lent = set(aliasing.roots.get(wait.source, NO_ROOTS)), set[ir.Value]()
    for op in function.ops_of(ir.CollectiveStart):
        if wait.source in op.results:
            writes = op.effects(analyses).writes
            for value in ir.operands(op):
                (busy if value in writes else lent).update(aliasing.roots.get(value, NO_ROOTS))
    return _InFlight(frozenset(busy), frozenset(lent))


def _first_need(
    wait: ir.Wait,
    at: int,
    body: Sequence[ir.Op],
    in_flight: _InFlight,
    aliasing: Aliasing,
    analyses: Analyses,
) -> int:
    """Returns the position of the first op after the wait at `at` that must stay after it."""
    for position in range(at + 1, len(body)):
        op = body[position]
        if wait.result in ir.operands(op) or not may_pass(op, analyses):
            return position
        effects = op.effects(analyses)
        changed = {*effects.writes, *effects.moves, *effects.ends}
        for value in ir.operands(op):
            uses = frozenset(aliasing.roots.get(value, NO_ROOTS))
            if not in_flight.busy.isdisjoint(uses) or (
                value in changed and not in_flight.lent.isdisjoint(uses)
            ):
                return position
    return len(body)
