"""Fast placements: by size, and in order of time."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence
from itertools import chain

from wrapper_ir_passes.planner.buffers import Buffer, Placement, aligned


def by_size(buffers: Sequence[Buffer]) -> Placement:
    """Places the largest first, each in the lowest gap at its time; equal sizes in order of time.

    Like interval colouring, equal sizes alone need no more than their live bytes. Quadratic if all overlap.
    """
    return _lowest(sorted(buffers, key=lambda b: (-b.size, b.begin, -b.end, b.name)))


def by_area(buffers: Sequence[Buffer]) -> Placement:
    """Like `by_size`, ordered by bytes times time."""
    return _lowest(sorted(buffers, key=lambda b: (b.size * (b.begin - b.end), -b.size, b.begin, b.name)))


_Placed = tuple[int, int, int, int]
"""First byte, byte after the last one, begin, end."""


def _lowest(ordered: Sequence[Buffer]) -> Placement:
    places: dict[str, int] = {}
    placed = _ByTime(ordered)
    for b in ordered:
        begin, end, low = b.begin, b.end, 0
        for first, last, _, _ in [p for p in placed.near(begin, end) if p[2] < end and begin < p[3]]:
            if low + b.size <= first:
                break
            if last > low:
                low = aligned(last, b.alignment)
        places[b.name] = low
        placed.add((low, low + b.size, begin, end))
    return places


class _ByTime:
    """Placed buffers in order of the first byte, by section of time; sections have the average length of
    lifetimes.
    """

    def __init__(self, buffers: Sequence[Buffer]) -> None:
        self.width = max(1, sum(b.end - b.begin for b in buffers) // max(1, len(buffers)))
        self.sections: dict[int, list[_Placed]] = {}

    def near(self, begin: int, end: int) -> list[_Placed]:
        """A list with all that overlaps the time from `begin` to `end`."""
        first, last = begin // self.width, (end - 1) // self.width
        if first >= last:
            return self.sections.get(first, [])
        items = chain.from_iterable(self.sections.get(s, ()) for s in range(first, last + 1))
        return sorted({p for p in items if p[2] < end and begin < p[3]})

    def add(self, item: _Placed) -> None:
        """Adds what was placed."""
        for section in range(item[2] // self.width, (item[3] - 1) // self.width + 1):
            insort(self.sections.setdefault(section, []), item)


def best_fit(buffers: Sequence[Buffer]) -> Placement:
    """Places buffers in order of time, each into the smallest free block that is large enough, otherwise at
    the end.

    Adjacent free blocks are merged, as in a heap. Nearly linear.
    """
    places: dict[str, int] = {}
    free = _FreeBlocks()
    ends: dict[int, list[Buffer]] = {}
    begins: dict[int, list[Buffer]] = {}
    for b in buffers:
        begins.setdefault(b.begin, []).append(b)
        ends.setdefault(b.end, []).append(b)
    for time in sorted({*begins, *ends}):
        for b in ends.get(time, ()):
            if b.end > b.begin:
                free.add(places[b.name], b.size)
        for b in sorted(begins.get(time, ()), key=lambda b: (-b.size, b.end, b.name)):
            places[b.name] = free.take(b.size, b.alignment)
    return places


class _FreeBlocks:
    """Free blocks below a top that grows."""

    def __init__(self) -> None:
        self.top = 0
        self.starts: list[int] = []
        self.sizes: dict[int, int] = {}

    def add(self, start: int, size: int) -> None:
        """Releases a block; blocks of no bytes are ignored."""
        if not size:
            return
        at = bisect_left(self.starts, start)
        if at < len(self.starts) and self.starts[at] == start + size:
            size += self.sizes.pop(self.starts.pop(at))
        if at and self.starts[at - 1] + self.sizes[self.starts[at - 1]] == start:
            self.sizes[self.starts[at - 1]] += size
            return
        self.starts.insert(at, start)
        self.sizes[start] = size

    def take(self, size: int, alignment: int) -> int:
        """The first byte of a block of this size."""
        best = -1
        for start, block_size in self.sizes.items():
            fits = aligned(start, alignment) + size <= start + block_size
            if fits and (best < 0 or (block_size, start) < (self.sizes[best], best)):
                best = start
        if best < 0 and self.starts and self.starts[-1] + self.sizes[self.starts[-1]] == self.top:
            best = self.starts[-1]  # the last block grows
        if best < 0:
            place = aligned(self.top, alignment)
            self.add(self.top, place - self.top)
            self.top = place + size
            return place
        place = aligned(best, alignment)
        after = best + self._remove(best)
        self.top = max(self.top, place + size)
        self.add(best, place - best)
        self.add(place + size, max(0, after - place - size))
        return place

    def _remove(self, start: int) -> int:
        self.starts.pop(bisect_left(self.starts, start))
        return self.sizes.pop(start)
