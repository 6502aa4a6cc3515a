"""How much memory a program holds over time, by the storages that its functions own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass

from wrapper_ir import ir
from wrapper_ir.analysis.contents import Contents, contents_of
from wrapper_ir.analysis.liveness import Liveness, analyse_liveness, moved_roots
from wrapper_ir.analysis.memo import Analyses
from wrapper_ir.analysis.sizes import Sizes
from wrapper_ir.analysis.temporaries.table import temporaries


@dataclass(frozen=True, slots=True)
class MemoryUse:
    """Bytes of one call of a function, its callees included; see `docs/memory.md` for each.

    `allocated` is the sum over its storages. The others count operators' temporaries where they are known. `peak` is the most that is held at once as the program frees. `live` is the most
    that this order of ops needs at once of these storages, each from its first to its last use, slots of pools on their own.
    `bound` is the most that any plan of this order of ops has to hold: a storage counts only while content of it is read
    again, and once with an argument that a launch may write over in place.
    """

    allocated: int
    peak: int
    live: int
    bound: int


def memory_use(function: ir.Function, analyses: Analyses, sizes: Sizes) -> MemoryUse:
    """Memory of one call of `function` (not recursive), above what its caller holds; donated arguments count as
    the caller's. Worked out once for each function, however many calls there are."""
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
    own = {root: sizes.bytes_of(root) for root, position in _allocated(live)}
    contents = contents_of(function, analyses, sizes)
    inside = temporaries(function, sizes)
    spans, split = (_with_inside(_spans(contents, live, sizes, split=s), inside) for s in (False, True))
    needed = _held(spans, {p: c.live for p, c in calls.items()}, count)
    least = _held(split, {p: c.bound for p, c in calls.items()}, count)
    for position, saved in contents.in_place.items():
        least[position + 1] -= saved
    return MemoryUse(
        allocated=sum(own.values()) + sum(use.allocated for use in calls.values()),
        peak=max(
            _held(
                _with_inside(_as_freed(function, live, sizes), inside),
                {p: c.peak for p, c in calls.items()},
                count,
            )
        ),
        live=max(needed),
        bound=max(least),
    )


def held_outside(
    function: ir.Function, analyses: Analyses, sizes: Sizes, planned: Set[ir.Value]
) -> list[int]:
    """Bytes that one call of `function` holds while each op runs, but for its storages in `planned`."""
    live = analyses.get_for(function, analyse_liveness)
    inside = {p: c.peak for p, c in _calls(function, analyses, sizes).items()}
    changes = _with_inside(_as_freed(function, live, sizes, planned), temporaries(function, sizes))
    return _held(changes, inside, len(function.body))[1:]


def live_over(function: ir.Function, analyses: Analyses, sizes: Sizes) -> list[int]:
    """Bytes that one call of `function` needs while each op runs: each storage from its first to its last use, slots of pools on
    their own."""
    live = analyses.get_for(function, analyse_liveness)
    inside = {p: c.live for p, c in _calls(function, analyses, sizes).items()}
    spans = _spans(contents_of(function, analyses, sizes), live, sizes)
    return _held(_with_inside(spans, temporaries(function, sizes)), inside, len(function.body))[1:]


def _calls(function: ir.Function, analyses: Analyses, sizes: Sizes) -> dict[int, MemoryUse]:
    """The memory of callees, by the position of the call."""
    return {
        position: callee_use(op, analyses, sizes)
        for position, op in function.positions_of(ir.CallSubgraph, ir.Switch, ir.WhileLoop)
    }


def callee_use(op: ir.CallingOp, analyses: Analyses, sizes: Sizes) -> MemoryUse:
    """Of a switch, the largest branch; of a loop, one trip while the results of the one before still live."""
    uses = [memory_use(analyses.functions[n], analyses, sizes) for n in ir.callees(op)]
    before = sum(map(sizes.bytes_of, op.results)) if isinstance(op, ir.WhileLoop) else 0
    return MemoryUse(
        allocated=max(u.allocated for u in uses),
        peak=before + max(u.peak for u in uses),
        live=before + max(u.live for u in uses),
        bound=before + max(u.bound for u in uses),
    )


Changes = Counter[int]
"""Bytes gained (or lost) at each op: gains count during the op, losses after it."""


def _held(changes: tuple[Changes, Changes], inside: Mapping[int, int], count: int) -> list[int]:
    """Bytes held at the entry (position -1), and while each of `count` ops runs."""
    gains, losses = changes
    found, now = [], 0
    for position in range(-1, count):
        # What a callee makes and returns is among its own bytes: count it once, inside.
        found.append(now + max(gains[position], inside.get(position, 0)))
        now += gains[position] - losses[position]
    return found


def _with_inside(changes: tuple[Changes, Changes], inside: Mapping[int, int]) -> tuple[Changes, Changes]:
    """With bytes that live while one op runs."""
    for change in changes:
        change.update(inside)
    return changes


def freed_at(function: ir.Function, live: Liveness) -> dict[ir.Value, int]:
    """Where each storage is freed or moved away; those that are never are not in it."""
    found: dict[ir.Value, int] = {}
    for position, op in enumerate(function.body):
        for root in (op.storage,) if isinstance(op, ir.Free) else moved_roots(op, position, live.aliasing):
            found[root] = position
    return found


def _as_freed(
    function: ir.Function, live: Liveness, sizes: Sizes, but: Set[ir.Value] = frozenset()
) -> tuple[Changes, Changes]:
    """Storages live from their op to their `free` (or move), but for some; donated ones give bytes back."""
    gains, losses = Changes(), Changes()
    for root, position in _allocated(live):
        gains[position] += 0 if root in but else sizes.bytes_of(root)
    for root, position in freed_at(function, live).items():
        if root not in live.aliasing.hosts and root not in but:  # a slot's bytes stay its pool's
            losses[position] += sizes.bytes_of(root)
    return gains, losses


def _spans(contents: Contents, live: Liveness, sizes: Sizes, split: bool = False) -> tuple[Changes, Changes]:
    """Storages, and slots of pools on their own, from the first to the last use; `split`: where content dies between."""
    gains, losses = Changes(), Changes()
    for root, spans in contents.spans.items():
        size = sizes.bytes_of(root)
        for first, last in spans if split else ((spans[0][0], spans[-1][1]),):
            if live.aliasing.owned[root] >= 0:  # a donated one is the caller's until it is given back
                gains[first] += size
            losses[last] += size
    return gains, losses


def _allocated(live: Liveness) -> Iterator[tuple[ir.Value, int]]:
    """The roots that the function itself has memory made for, and where: elements of a nested result by the call, not where they
    are unpacked."""
    for root, position in live.aliasing.owned.items():
        if position >= 0 and root not in live.aliasing.hosts:
            yield root, live.aliasing.calls.get(root, position)
