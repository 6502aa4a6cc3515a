"""Computes the memory that a program allocates over time, from the storages that its functions own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass

from wrapper_ir import ir
from wrapper_ir.analysis.liveness import Liveness, analyse_liveness, moved_roots
from wrapper_ir.analysis.memo import Analyses
from wrapper_ir.analysis.sizes import Sizes
from wrapper_ir_passes.analysis.contents import Contents, contents_of
from wrapper_ir_passes.analysis.temporaries.table import temporaries


@dataclass(frozen=True, slots=True)
class MemoryUse:
    """Bytes of one call of a function, its callees included; see `docs/memory.md` for each.

    `allocated` is the sum over its storages. The others include operators' known temporaries. `peak` is the
    most that is allocated at once, with the program's frees. `live` is the most that this order of ops uses
    at once if each storage, and each slot of a pool, lives from its first to its last use. `bound` is a lower
    bound for any plan of this order of ops: a storage counts only while its content is live, and shares
    memory with an argument that a launch may overwrite in place.
    """

    allocated: int
    peak: int
    live: int
    bound: int


def memory_use(function: ir.Function, analyses: Analyses, sizes: Sizes) -> MemoryUse:
    """Memory of one call of `function` (not recursive), in addition to the caller's; donated arguments are
    the caller's. Computed once per function."""
    return analyses.get_from_callees(function, _UseUnder(sizes))


@dataclass(frozen=True, slots=True)
class _UseUnder:
    """The analysis `memory_use` under these sizes."""

    sizes: Sizes

    def __call__(self, function: ir.Function, analyses: Analyses) -> MemoryUse:
        return _memory_use(function, analyses, self.sizes)


def _memory_use(function: ir.Function, analyses: Analyses, sizes: Sizes) -> MemoryUse:
    live = analyses.get_for(function, analyse_liveness)
    calls = _calls(function, analyses, sizes)
    count = len(function.body)
    own = sum(sizes.bytes_of(root) for root, _ in _allocated(live))
    contents = contents_of(function, analyses, sizes)
    inside = temporaries(function, sizes)
    freed = _with_inside(_as_freed(function, live, sizes), inside)
    spans, split = (_with_inside(_spans(contents, live, sizes, split=s), inside) for s in (False, True))
    least = _totals(split, {p: c.bound for p, c in calls.items()}, count)
    for position, saving in contents.in_place.items():
        least[position + 1] -= saving
    return MemoryUse(
        allocated=own + sum(use.allocated for use in calls.values()),
        peak=max(_totals(freed, {p: c.peak for p, c in calls.items()}, count)),
        live=max(_totals(spans, {p: c.live for p, c in calls.items()}, count)),
        bound=max(least),
    )


def held_outside(
    function: ir.Function, analyses: Analyses, sizes: Sizes, planned: Set[ir.Value]
) -> list[int]:
    """Bytes that one call of `function` has allocated while each op runs, except for storages in
    `planned`."""
    live = analyses.get_for(function, analyse_liveness)
    inside = {p: c.peak for p, c in _calls(function, analyses, sizes).items()}
    changes = _with_inside(_as_freed(function, live, sizes, planned), temporaries(function, sizes))
    return _totals(changes, inside, len(function.body))[1:]


def live_over(function: ir.Function, analyses: Analyses, sizes: Sizes) -> list[int]:
    """Bytes that one call of `function` uses while each op runs, if each storage and each slot of a pool
    lives from its first to its last use."""
    live = analyses.get_for(function, analyse_liveness)
    inside = {p: c.live for p, c in _calls(function, analyses, sizes).items()}
    spans = _spans(contents_of(function, analyses, sizes), live, sizes)
    return _totals(_with_inside(spans, temporaries(function, sizes)), inside, len(function.body))[1:]


def _calls(function: ir.Function, analyses: Analyses, sizes: Sizes) -> dict[int, MemoryUse]:
    """The memory of callees, by the position of the call."""
    return {
        position: callee_use(op, analyses, sizes)
        for position, op in function.positions_of(ir.CallSubgraph, ir.Switch, ir.WhileLoop)
    }


def callee_use(op: ir.CallingOp, analyses: Analyses, sizes: Sizes) -> MemoryUse:
    """The memory of a call: of the largest branch of a switch, or of one trip of a loop in addition to the
    results of the previous trip."""
    uses = [memory_use(analyses.functions[n], analyses, sizes) for n in ir.callees(op)]
    before = sum(map(sizes.bytes_of, op.results)) if isinstance(op, ir.WhileLoop) else 0
    return MemoryUse(
        allocated=max(u.allocated for u in uses),
        peak=before + max(u.peak for u in uses),
        live=before + max(u.live for u in uses),
        bound=before + max(u.bound for u in uses),
    )


Changes = Counter[int]
"""Bytes allocated or freed by each op: allocations count during the op, frees after it."""


def _totals(changes: tuple[Changes, Changes], inside: Mapping[int, int], count: int) -> list[int]:
    """Bytes allocated at the entry (position -1), and while each of `count` ops runs."""
    gains, losses = changes
    totals, now = [], 0
    for position in range(-1, count):
        # `inside` includes the results that a callee allocates and returns: count them once
        totals.append(now + max(gains[position], inside.get(position, 0)))
        now += gains[position] - losses[position]
    return totals


def _with_inside(changes: tuple[Changes, Changes], inside: Mapping[int, int]) -> tuple[Changes, Changes]:
    """Adds bytes that are allocated only while one op runs."""
    for change in changes:
        change.update(inside)
    return changes


def freed_at(function: ir.Function, live: Liveness) -> dict[ir.Value, int]:
    """The positions at which storages are freed or moved; those that never are, are omitted."""
    ends: dict[ir.Value, int] = {}
    for position, op in enumerate(function.body):
        for root in (op.storage,) if isinstance(op, ir.Free) else moved_roots(op, position, live.aliasing):
            ends[root] = position
    return ends


def _as_freed(
    function: ir.Function, live: Liveness, sizes: Sizes, but: Set[ir.Value] = frozenset()
) -> tuple[Changes, Changes]:
    """Changes by storages that live from their op to their `free` or move, except for some. A donated one is
    only freed."""
    gains, losses = Changes(), Changes()
    for root, position in _allocated(live):
        gains[position] += 0 if root in but else sizes.bytes_of(root)
    for root, position in freed_at(function, live).items():
        if root not in live.aliasing.hosts and root not in but:  # a slot's bytes stay its pool's
            losses[position] += sizes.bytes_of(root)
    return gains, losses


def _spans(contents: Contents, live: Liveness, sizes: Sizes, split: bool = False) -> tuple[Changes, Changes]:
    """Changes by storages and slots that live from the first to the last use; if `split`, only while content
    is live."""
    gains, losses = Changes(), Changes()
    for root, spans in contents.spans.items():
        size = sizes.bytes_of(root)
        for first, last in spans if split else ((spans[0][0], spans[-1][1]),):
            if live.aliasing.owned[root] >= 0:  # a donated one was allocated by the caller
                gains[first] += size
            losses[last] += size
    return gains, losses


def _allocated(live: Liveness) -> Iterator[tuple[ir.Value, int]]:
    """The roots that the function itself allocates, with positions; elements of a nested result are allocated
    by the call, not by the op that unpacks them."""
    for root, position in live.aliasing.owned.items():
        if position >= 0 and root not in live.aliasing.hosts:
            yield root, live.aliasing.calls.get(root, position)
