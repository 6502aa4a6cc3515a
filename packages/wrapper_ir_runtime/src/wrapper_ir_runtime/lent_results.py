"""Results of recordings that callers may hold, and which recordings write over them.

All recordings of a device take memory from one pool: what one frees, another may use, for what it computes with and for what it
returns. So a replay may write where results of another recording lie, which was made later. Each recording therefore knows the
results of others that lie in its memory, and is replayed only while nobody holds them.

A recording may also take memory of results that it is given: backward that of what forward has saved for it. It is the last to use
them, so that its own results may lie there; forward's next replay then waits until nobody holds those.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any

from wrapper_ir_runtime.graph_device import GraphDevice, Span

_PARTINGS = 2
"""How often a function that takes memory of results may be recorded anew before it takes none any more."""


# Any in this file: tensors of a library that this package does not know.
@dataclass(slots=True, eq=False)
class Lending:
    """What the recordings of one function do with results."""

    owned: frozenset[int] = frozenset()
    """Positions of the results of which callers get copies."""
    takes: bool = True
    """Whether recordings use the memory of results that the function is given to end."""
    partings: int = 0
    """How often a recording was given up that had taken memory."""


@dataclass(slots=True, eq=False)
class LentResults:
    """What the replays of one recording of `function` return. `storages` is what `GraphDevice.holders` counts the holders of,
    `holders` how many there are while no caller has any, `spans` where they lie. `takes` are results of others whose memory the
    recording has."""

    device: GraphDevice
    function: Lending
    takes: Sequence[Overlap]
    results: tuple[Any, ...]
    storages: Sequence[Any]
    holders: Sequence[int]
    spans: Sequence[Span]
    is_lent: bool = False
    """Whether a caller may have one."""
    taken: set[int] = field(default_factory=set)
    """Those whose memory another recording uses after their last use."""
    takers: list[Lending] = field(default_factory=list)
    is_stale: bool = False
    """Whether the recording is to be made anew as soon as nobody holds its results."""
    _left: list[int] | None = None
    """Those that callers still held when the recording was given up; others are gone."""

    def held(self) -> Set[int]:
        """The positions of the results that callers hold now."""
        now = self.device.holders(self.storages)
        if now == self.holders:
            return frozenset()
        found = [i for i, (n, free) in enumerate(zip(now, self.holders)) if n != free]
        return {self._left[i] for i in found} if self._left is not None else set(found)

    def mark_stale(self) -> None:
        """Lets the recording be made anew once nobody holds its results, since others have taken memory of them for good."""
        self.is_stale = self.is_lent = True

    def part(self, *, for_good: bool = False) -> None:
        """The same; those that have taken memory do so again only a few times, or, `for_good`, not at all."""
        self.mark_stale()
        for taker in self.takers:
            taker.partings += 1
            taker.takes = taker.takes and not for_good and taker.partings <= _PARTINGS

    def give_up(self, held: Set[int]) -> None:
        """Keeps what is held, and lets go of the rest."""
        keep = sorted(held)
        self.results = tuple([self.results[i] for i in keep])
        self.storages = [self.storages[i] for i in keep]
        self.holders = [self.holders[i] for i in keep]
        self._left = keep

    @property
    def is_given_up(self) -> bool:
        """Whether the recording is gone, and callers still held some results then."""
        return self._left is not None


@dataclass(slots=True, eq=False)
class Overlap:
    """Results of another recording, of which those at `positions` may lie where a replay writes."""

    lent: LentResults
    positions: Set[int]


@dataclass(slots=True, eq=False)
class _Recording:
    lent: LentResults
    memory: Sequence[Span]
    overlaps: list[Overlap]


class RecordedMemory:
    """What the recordings of one device have lent, and where they write."""

    def __init__(self, device: GraphDevice) -> None:
        self.device = device
        self._recordings: list[_Recording] = []
        self._given_up: list[LentResults] = []

    def add(
        self, function: Lending, results: tuple[Any, ...], takes: Sequence[Overlap]
    ) -> tuple[LentResults, list[Overlap]]:
        """A new recording, which has taken the memory of `takes`: its results, and those of others that its replays may write over
        (a list that later recordings add to)."""
        device = self.device
        storages = device.storages(results)
        spans = device.spans(results)
        lent = LentResults(device, function, takes, results, storages, device.holders(storages), spans)
        for recording in self._recordings:
            inside = {i for i, span in enumerate(lent.spans) if _meets(recording.memory, span)}
            if inside:
                recording.overlaps.append(Overlap(lent, inside))
        own: dict[int, set[int]] = {}
        for each in takes:
            own.setdefault(id(each.lent), set()).update(each.positions)
        self._given_up = [each for each in self._given_up if each.held()]
        overlaps = [
            Overlap(other, rest)
            for other in (*(r.lent for r in self._recordings), *self._given_up)
            if (rest := other.taken - own.get(id(other), set()))
        ]
        self._recordings.append(_Recording(lent, _joined(device.memory()), overlaps))
        return lent, overlaps

    def remove(self, lent: LentResults) -> None:
        """Forgets a recording, but for results that callers hold. What it has taken memory of is recorded anew, too."""
        for each in lent.takes:
            each.lent.mark_stale()
        self._recordings = [r for r in self._recordings if r.lent is not lent]
        held = lent.held()
        lent.give_up(held)
        if held and lent.taken:
            self._given_up.append(lent)
        for recording in self._recordings if not held else ():
            recording.overlaps[:] = [each for each in recording.overlaps if each.lent is not lent]

    def take(
        self, function: Lending, tensors: Mapping[int, Any], given: Set[int]
    ) -> tuple[list[Overlap], dict[int, Any]]:
        """The results of other functions' recordings among a function's arguments (by position), of which it is to end those in
        `given`, and the arguments in their place, with which their memory ends."""
        takes: list[Overlap] = []
        handed: dict[int, Any] = {}
        by_span: dict[Span, list[int]] = {}
        for i, span in zip(tensors, self.device.spans([*tensors.values()])):
            by_span.setdefault(span, []).append(i)
        known = self._by_span() if function.takes else {}
        for span, positions in by_span.items():
            lent, result = known.get(span, (None, 0))
            if lent is None or lent.function is function or not given >= set(positions):
                continue
            same = {i for i, other in enumerate(lent.spans) if other == span}
            lent.taken |= same
            lent.takers.append(function)
            takes.append(Overlap(lent, same))
            ending = self.device.release(lent.results[result], [tensors[i] for i in positions])
            handed.update(zip(positions, ending))
        return takes, handed

    def lent(self, tensors: Sequence[Any]) -> list[int]:
        """The positions of those that are results of recordings."""
        known = self._by_span()
        return [i for i, span in enumerate(self.device.spans(tensors)) if span in known]

    def part_from(self, tensors: Sequence[Any]) -> bool:
        """Whether some lie in memory that recordings may use from their beginning, so that none can be made for these arguments.
        Then what lends them is recorded anew first."""
        known = self._by_span()
        found = [known[span] for span in self.device.spans(tensors) if span in known]
        lenders = [lent for lent, i in found if i in lent.taken]
        for lent in dict.fromkeys(lenders):
            lent.part()
        return bool(lenders)

    def _by_span(self) -> dict[Span, tuple[LentResults, int]]:
        """All results, those that were given up only where their memory was taken, by where they lie."""
        return {
            span: (lent, i)
            for lent in (*self._given_up, *(r.lent for r in self._recordings))
            for i, span in enumerate(lent.spans)
            if span[0] < span[1] and (i in lent.taken or not lent.is_given_up)
        }


def _joined(spans: Sequence[Span]) -> list[Span]:
    """In order, adjacent ones as one."""
    found: list[Span] = []
    for begin, end in sorted(spans):
        if found and begin <= found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((begin, end))
    return found


def _meets(memory: Sequence[Span], span: Span) -> bool:
    """Whether bytes of a span are among `memory`, whose spans are in order and apart."""
    at = bisect_right(memory, (span[1], 0))
    return span[0] < span[1] and at > 0 and memory[at - 1][1] > span[0]
