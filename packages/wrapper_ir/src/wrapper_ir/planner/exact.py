"""Search for a placement of least height, within a number of steps.

After MiniMalloc (Moffitt, ASPLOS 2023) and TelaMalloc (Maas et al., ASPLOS 2022).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from wrapper_ir.planner.buffers import Buffer, Placement, aligned, height, live_bytes, peak_bytes

__all__ = ["exact"]


def exact(buffers: Sequence[Buffer], start: Placement, steps: int) -> tuple[Placement, bool]:
    """The best placement found from `start` on, and whether none is lower.

    Looks for a placement below a height between the bound and the best one, and halves what is between them: a low target ends
    branches early, and so leads to good placements. Each target is tried with several orders of buffers, each time for a share
    of the steps, which grows. The limit is in steps, not in seconds, so that a program has one plan on every machine. One step
    looks at all buffers that are left, and goes one call deeper: for hundreds of buffers, not thousands.
    """
    best, highest, lowest = start, height(buffers, start), peak_bytes(buffers)
    share = max(len(buffers) + len(buffers) // 4, steps // 32)
    orders = [sorted(buffers, key=key) for key in _keys(buffers)]
    guessed = target = lowest  # below `lowest` there is no placement, below `guessed` none was found
    while lowest < highest and steps > 0:
        for order in orders:
            search = _Search(order, target, min(share, steps))
            found = search.run()
            steps -= search.taken
            if found is not None:
                best, highest = found, height(buffers, found)
                orders.sort(key=lambda o: o is not order)
                break
            if search.steps >= 0:
                lowest = target + 1  # all were tried
                break
        else:
            guessed = target + 1
        guessed = max(guessed, lowest)
        if guessed >= highest:
            guessed, share = lowest, 4 * share
        target = (guessed + highest - 1) // 2
    return best, lowest >= highest


def _keys(buffers: Sequence[Buffer]) -> tuple[Callable[[Buffer], tuple[float | str, ...]], ...]:
    """Orders in which buffers that fit equally low are tried: by the most that lives beside them, by time, by bytes."""
    live = live_bytes(buffers)
    beside = {b.name: max((n for time, n in live if b.begin <= time < b.end), default=0) for b in buffers}
    return (
        lambda b: (b.begin - b.end, -b.size * (b.end - b.begin), b.name),
        lambda b: (-beside[b.name], b.begin - b.end, b.name),
        lambda b: (-b.size, b.begin - b.end, b.name),
    )


class _Search:
    """Depth first over the order of buffers by offset: in some best placement each buffer lies on those below it, so the search
    puts the next one on what is there."""

    def __init__(self, order: Sequence[Buffer], target: int, steps: int) -> None:
        self.buffers, self.target, self.given, self.steps = order, target, steps, steps
        times = sorted({b.begin for b in order})
        self.over = [[t for t, time in enumerate(times) if b.begin <= time < b.end] for b in order]
        """The sections of time that each buffer is in; a section begins where a buffer does."""
        self.skyline = [0] * len(times)
        self.rest = [0] * len(times)
        """Bytes of each section that are still to be placed."""
        for b, sections in zip(order, self.over, strict=True):
            for t in sections:
                self.rest[t] += b.size
        self.places: dict[str, int] = {}

    @property
    def taken(self) -> int:
        """Steps that were made."""
        return self.given - max(self.steps, 0)

    def run(self) -> Placement | None:
        """A placement no higher than the target; None: there is none, or (`steps` below 0) none was found."""
        return dict(self.places) if self._place(list(range(len(self.buffers))), 0) else None

    def _place(self, left: list[int], floor: int) -> bool:
        if not left:
            return True
        self.steps -= 1
        options = self._options(left, floor) if self.steps >= 0 else []
        if not options:
            return False
        # what would fit below the lowest place of the others comes first, or never better
        ceiling = min(low + self.buffers[i].size for low, i in options)
        for low, i in options:
            if low >= ceiling and low > options[0][0]:
                break
            if self._descend(low, i, left):
                return True
            if self.steps < 0:
                break
        return False

    def _options(self, left: list[int], floor: int) -> list[tuple[int, int]]:
        """(lowest place, buffer) of each buffer, the lowest first; none where some section cannot hold what is left of it,
        which lies no lower than the lowest place of any buffer in it."""
        found = []
        lowest = [self.target + 1] * len(self.skyline)
        for i in left:
            b, sections = self.buffers[i], self.over[i]
            low = aligned(max(floor, max((self.skyline[t] for t in sections), default=0)), b.alignment)
            if low + b.size > self.target:
                return []
            found.append((low, i))
            for t in sections:
                if low < lowest[t]:
                    lowest[t] = low
        fits = all(low + rest <= self.target for low, rest in zip(lowest, self.rest, strict=True) if rest)
        return sorted(found) if fits else []

    def _descend(self, low: int, i: int, left: list[int]) -> bool:
        b, sections = self.buffers[i], self.over[i]
        before = [self.skyline[t] for t in sections]
        for t in sections:
            self.skyline[t] = low + b.size
            self.rest[t] -= b.size
        self.places[b.name] = low
        if self._place([j for j in left if j != i], low):
            return True
        del self.places[b.name]
        for t, was in zip(sections, before, strict=True):
            self.skyline[t] = was
            self.rest[t] += b.size
        return False
