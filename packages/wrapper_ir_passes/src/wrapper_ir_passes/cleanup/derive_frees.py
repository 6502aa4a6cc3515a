"""Ends every storage and name right after its last use, according to effects."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import ClassVar

from wrapper_ir import ir
from wrapper_ir.analysis.aliasing import NO_ROOTS, Aliasing
from wrapper_ir.analysis.liveness import Liveness, analyse_liveness, moved_roots
from wrapper_ir.analysis.memo import Analyses
from wrapper_ir.analysis.streams import crossing_streams
from wrapper_ir.plugins.passes import Pass


@dataclasses.dataclass(frozen=True)
class DeriveFrees(Pass):
    """Removes every `free` and `drop` and derives them again.

    A storage, including that of an owned parameter, is freed after the last use of all its tensors, unless it
    is moved or returned. Of those that end together, workspaces are freed last, in reverse order of
    allocation. Names over bytes that the function may not own are dropped after their last use. These are
    borrowed parameters and their views, results that may alias, nested results, and handles. Constants stay.
    Storages that several streams use last until the function returns. Their memory returns to its first
    stream, which may not have waited for the others. Of their names, only those over bytes that are reused or
    moved may end earlier.
    """

    name: ClassVar[str] = "derive-frees"
    # rules that wrong, missing or repeated frees and drops can break
    repairs: ClassVar[frozenset[str]] = frozenset(
        {"WIR060", "WIR061", "WIR063", "WIR064", "WIR065", "WIR066", "WIR067", "WIR070"}
    )

    def transform(self, analyses: Analyses) -> ir.Program:
        """The program with lifetimes ended at the earliest point."""
        stripped = analyses.after(strip_frees(analyses.program))
        return stripped.program.with_functions([_derive(f, stripped) for f in stripped.program.functions])


def derive_frees(program: ir.Program, analyses: Analyses | None = None) -> ir.Program:
    """`DeriveFrees` with its default options."""
    return DeriveFrees().run(program, analyses)


def strip_frees(program: ir.Program) -> ir.Program:
    """The program without any `Free` or `Drop`."""
    return program.with_functions(f.without(ir.EndOp) for f in program.functions)


def _derive(function: ir.Function, analyses: Analyses) -> ir.Function:
    live = analyses.get_for(function, analyse_liveness)
    crossing = analyses.get_for(function, crossing_streams)
    end = len(function.body) - 2  # just before the return
    after: dict[int, list[ir.Op]] = {}
    transfers = _given_away(function, live.aliasing) if crossing else {}
    for value, position in live.names.items():
        if value in crossing:
            later = [
                at for root in live.aliasing.roots.get(value, NO_ROOTS) for at in transfers.get(root, ())
            ]
            position = min((at - 1 for at in later if at > position), default=end)
        after.setdefault(position, []).append(ir.Drop(value=value))
    for value, position in _release_order(function, live):
        assert ir.is_storage(value) or ir.is_tensor(value)  # nothing else owns bytes
        # slots belong to their pool, which waits for all streams
        late = value in crossing and value not in live.aliasing.hosts
        after.setdefault(end if late else position, []).append(ir.Free(storage=value))
    body: list[ir.Op] = after.get(-1, [])
    for position, op in enumerate(function.body):
        body.append(op)
        body.extend(after.get(position, ()))
    return function.with_body(body)


def _given_away(function: ir.Function, aliasing: Aliasing) -> dict[ir.Value, list[int]]:
    """Positions at which roots are reused or moved into a callee: no earlier name may be used afterwards."""
    transfers: dict[ir.Value, list[int]] = {}
    for position, op in enumerate(function.body):
        match op:
            case ir.View(source=source, mode=ir.ViewMode.REUSE):
                roots = aliasing.roots.get(source, NO_ROOTS)
            case _:
                roots = moved_roots(op, position, aliasing)
        for root in roots:
            transfers.setdefault(root, []).append(position)
    return transfers


def _release_order(function: ir.Function, live: Liveness) -> Sequence[tuple[ir.Value, int]]:
    """Returns storages with the positions of their last uses, in the order of their frees: slots before their
    pools.
    """
    hosts = live.aliasing.hosts
    slots = [item for item in live.storages.items() if item[0] in hosts]
    storages = {root: position for root, position in live.storages.items() if root not in hosts}
    scratch = {
        op.result for op in function.ops_of(ir.AllocStorage) if op.purpose is ir.AllocPurpose.WORKSPACE
    }
    plain = [item for item in storages.items() if item[0] not in scratch]
    return [*reversed(slots), *plain, *reversed([item for item in storages.items() if item[0] in scratch])]
