"""Results of graphs that callers may reference, and the graphs that overwrite them.

All graphs of a device allocate from one pool: memory that one frees, another may use for intermediates
and results. A replay may therefore write memory of a result of a later graph. Each graph tracks such
results, and is replayed only while no caller references them.

A graph may also take the memory of results that are its arguments: backward takes that of tensors saved
by forward. It is their last user, so its own results may be stored there. Forward's next replay then waits
until no caller references those.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from wrapper_ir_runtime.graph_device import GraphDevice, Span

T = TypeVar("T")
_PARTINGS = 2
"""The number of captures after which a function stops taking memory of results."""


@dataclass(slots=True, eq=False)
class Lending:
    """Policy of one function's graphs for results."""

    owned: frozenset[int] = frozenset()
    """Positions of results that callers receive as copies."""
    takes: bool = True
    """True if graphs reuse the memory of results that are donated arguments."""
    partings: int = 0
    """The number of graphs that had taken memory and were given up."""


@dataclass(slots=True, eq=False)
class LentResults(Generic[T]):
    """Results of the replays of one graph of `function`.

    `storages` are the arguments of `GraphDevice.holders`, `holders` its counts while no caller references a
    result, and `spans` the address ranges. `takes` are results of other graphs whose memory this
    graph uses.
    """

    device: GraphDevice[T]
    function: Lending
    takes: Sequence[Overlap[T]]
    results: tuple[T, ...]
    storages: Sequence[object]
    holders: Sequence[int]
    spans: Sequence[Span]
    is_lent: bool = False
    """True if a caller may reference a result."""
    reused: set[int] = field(default_factory=set)
    """Positions of results whose memory another graph uses after their last use."""
    takers: list[Lending] = field(default_factory=list)
    is_stale: bool = False
    """True if the function is captured again as soon as no caller references the results."""
    _left: list[int] | None = None
    """Positions that callers still referenced when the graph was given up; the others are gone."""

    def held(self) -> Set[int]:
        """Returns the positions of results that callers reference now."""
        now = self.device.holders(self.storages)
        if now == self.holders:
            return frozenset()
        positions = [i for i, (n, free) in enumerate(zip(now, self.holders)) if n != free]
        return {self._left[i] for i in positions} if self._left is not None else set(positions)

    def mark_stale(self) -> None:
        """Requests a new graph once no caller references the results, since others took their memory for
        good."""
        self.is_stale = self.is_lent = True

    def part(self, *, for_good: bool = False) -> None:
        """Marks the graph stale and limits those that took its memory.

        They may take memory again only a few times, or never if `for_good`.
        """
        self.mark_stale()
        for taker in self.takers:
            taker.partings += 1
            taker.takes = taker.takes and not for_good and taker.partings <= _PARTINGS

    def give_up(self, referenced: Set[int]) -> None:
        """Keeps the results at positions in `referenced` and drops the others."""
        keep = sorted(referenced)
        self.results = tuple([self.results[i] for i in keep])
        self.storages = [self.storages[i] for i in keep]
        self.holders = [self.holders[i] for i in keep]
        self._left = keep

    @property
    def is_given_up(self) -> bool:
        """True if the graph is gone while callers still referenced some results."""
        return self._left is not None


@dataclass(slots=True, eq=False)
class Overlap(Generic[T]):
    """Results of another graph; those at `positions` may be in memory that a replay writes."""

    lent: LentResults[T]
    positions: Set[int]


@dataclass(slots=True, eq=False)
class _Graph(Generic[T]):
    lent: LentResults[T]
    memory: Sequence[Span]
    overlaps: list[Overlap[T]]


class GraphMemory(Generic[T]):
    """Memory of one device's graphs: where they write, and which results callers may reference."""

    def __init__(self, device: GraphDevice[T]) -> None:
        self.device = device
        self._graphs: list[_Graph[T]] = []
        self._given_up: list[LentResults[T]] = []

    def add(
        self, function: Lending, results: tuple[T, ...], takes: Sequence[Overlap[T]]
    ) -> tuple[LentResults[T], list[Overlap[T]]]:
        """Registers a new graph that has taken the memory of `takes`.

        Returns its results, and the results of other graphs that its replays may overwrite. Later
        graphs extend that list.
        """
        device = self.device
        storages = device.storages(results)
        spans = device.spans(results)
        lent = LentResults(device, function, takes, results, storages, device.holders(storages), spans)
        for graph in self._graphs:
            inside = {i for i, span in enumerate(lent.spans) if _meets(graph.memory, span)}
            if inside:
                graph.overlaps.append(Overlap(lent, inside))
        own: dict[int, set[int]] = {}
        for each in takes:
            own.setdefault(id(each.lent), set()).update(each.positions)
        self._given_up = [each for each in self._given_up if each.held()]
        overlaps = [
            Overlap(other, rest)
            for other in (*(r.lent for r in self._graphs), *self._given_up)
            if (rest := other.reused - own.get(id(other), set()))
        ]
        self._graphs.append(_Graph(lent, _joined(device.memory()), overlaps))
        return lent, overlaps

    def remove(self, lent: LentResults[T]) -> None:
        """Removes a graph except for results that callers reference. Graphs whose memory it had taken
        become stale."""
        for each in lent.takes:
            each.lent.mark_stale()
        self._graphs = [r for r in self._graphs if r.lent is not lent]
        references = lent.held()
        lent.give_up(references)
        if references and lent.reused:
            self._given_up.append(lent)
        for graph in self._graphs if not references else ():
            graph.overlaps[:] = [each for each in graph.overlaps if each.lent is not lent]

    def take(
        self, function: Lending, tensors: Mapping[int, T], donated: Set[int]
    ) -> tuple[list[Overlap[T]], dict[int, T]]:
        """Takes the memory of results of other functions among the arguments that the function ends
        (`donated`).

        `tensors` are arguments by position. Returns the results, and the arguments that replace them: the
        memory is released with these.
        """
        takes: list[Overlap[T]] = []
        handed: dict[int, T] = {}
        by_span: dict[Span, list[int]] = {}
        for i, span in zip(tensors, self.device.spans([*tensors.values()])):
            by_span.setdefault(span, []).append(i)
        results_by_span = self._by_span() if function.takes else {}
        for span, positions in by_span.items():
            lent, result = results_by_span.get(span, (None, 0))
            if lent is None or lent.function is function or not donated >= set(positions):
                continue
            same = {i for i, other in enumerate(lent.spans) if other == span}
            lent.reused |= same
            lent.takers.append(function)
            takes.append(Overlap(lent, same))
            ending = self.device.release(lent.results[result], [tensors[i] for i in positions])
            handed.update(zip(positions, ending))
        return takes, handed

    def lent(self, tensors: Sequence[T]) -> list[int]:
        """Returns the positions of tensors that are results of graphs."""
        results_by_span = self._by_span()
        return [i for i, span in enumerate(self.device.spans(tensors)) if span in results_by_span]

    def part_from(self, tensors: Sequence[T]) -> bool:
        """Returns whether tensors are in memory that graphs may use from their beginning; marks their
        lenders stale.

        No graph is possible for such arguments until the lenders are captured again.
        """
        results_by_span = self._by_span()
        results = [results_by_span[span] for span in self.device.spans(tensors) if span in results_by_span]
        lenders = [lent for lent, i in results if i in lent.reused]
        for lent in dict.fromkeys(lenders):
            lent.part()
        return bool(lenders)

    def _by_span(self) -> dict[Span, tuple[LentResults[T], int]]:
        """Returns all results by address range; given-up ones only if their memory was taken."""
        return {
            span: (lent, i)
            for lent in (*self._given_up, *(r.lent for r in self._graphs))
            for i, span in enumerate(lent.spans)
            if span[0] < span[1] and (i in lent.reused or not lent.is_given_up)
        }


def _joined(spans: Sequence[Span]) -> list[Span]:
    """Returns sorted spans; adjacent ones are merged."""
    merged: list[Span] = []
    for begin, end in sorted(spans):
        if merged and begin <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((begin, end))
    return merged


def _meets(memory: Sequence[Span], span: Span) -> bool:
    """Returns whether bytes of `span` are in `memory`, which is sorted and disjoint."""
    at = bisect_right(memory, (span[1], 0))
    return span[0] < span[1] and at > 0 and memory[at - 1][1] > span[0]
