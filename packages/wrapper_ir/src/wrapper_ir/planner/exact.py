"""Search for a placement of least height, within a number of steps."""

from __future__ import annotations

from collections.abc import Sequence

from wrapper_ir.planner.buffers import Buffer, Placement, aligned, height, peak_bytes

__all__ = ["exact"]


def exact(buffers: Sequence[Buffer], start: Placement, steps: int) -> tuple[Placement, bool]:
    """The best placement found from `start` on, and whether none is lower.

    Depth first over the order of buffers by offset: in some best placement each buffer lies on those below it, so the search
    puts the next one on what is there. A branch ends where the bytes still to come do not fit below the best height. The limit
    is in steps, not in seconds, so that a program has one plan on every machine.
    """
    search = _Search(buffers, start, steps)
    search.run()
    return search.best, search.complete or search.lowest <= search.bound


class _Search:
    def __init__(self, buffers: Sequence[Buffer], start: Placement, steps: int) -> None:
        self.best: Placement = dict(start)
        self.lowest = height(buffers, start)
        self.bound = peak_bytes(buffers)
        self.steps = steps
        self.complete = False
        order = sorted(buffers, key=lambda b: (-b.size, b.begin - b.end, b.name))
        self.buffers = order
        times = sorted({b.begin for b in order})
        self.over = [[t for t, time in enumerate(times) if b.begin <= time < b.end] for b in order]
        """The sections of time that each buffer is in; a section begins where a buffer does."""
        self.skyline = [0] * len(times)
        self.rest = [0] * len(times)
        for b, sections in zip(order, self.over, strict=True):
            for t in sections:
                self.rest[t] += b.size

    def run(self) -> None:
        if self.lowest > self.bound:
            self.complete = self._place(list(range(len(self.buffers))), {}, 0)

    def _place(self, left: list[int], places: dict[str, int], floor: int) -> bool:
        """Tries every next buffer; False where the steps have run out or the bound is reached."""
        if not left:
            self.lowest, self.best = max(self.skyline, default=0), dict(places)
            return self.lowest > self.bound
        options = []
        for i in left:
            b = self.buffers[i]
            options.append((aligned(max((self.skyline[t] for t in self.over[i]), default=0), b.alignment), i))
        options.sort()
        # what would fit below the lowest place of the others comes first, or never better
        ceiling = min(low + self.buffers[i].size for low, i in options)
        for low, i in options:
            if low >= ceiling and low > options[0][0]:
                break
            if low < floor or not self._fits(low, i):
                continue
            self.steps -= 1
            if self.steps < 0:
                return False
            if not self._descend(low, i, left, places):
                return False
        return True

    def _fits(self, low: int, i: int) -> bool:
        """Whether all that is left still fits below the best height, with this buffer at `low`."""
        return all(low + self.rest[t] < self.lowest for t in self.over[i])

    def _descend(self, low: int, i: int, left: list[int], places: dict[str, int]) -> bool:
        b, sections = self.buffers[i], self.over[i]
        before = [self.skyline[t] for t in sections]
        for t in sections:
            self.skyline[t] = low + b.size
            self.rest[t] -= b.size
        places[b.name] = low
        going = all(self.skyline[t] + self.rest[t] < self.lowest for t in range(len(self.rest)))
        result = self._place([j for j in left if j != i], places, low) if going else True
        del places[b.name]
        for t, was in zip(sections, before, strict=True):
            self.skyline[t] = was
            self.rest[t] += b.size
        return result
