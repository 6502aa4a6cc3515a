"""Search for a placement of least height, within a number of steps.

After MiniMalloc (Moffitt, ASPLOS 2023) and TelaMalloc (Maas et al., ASPLOS 2022).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import NamedTuple

from wrapper_ir_passes.planner.buffers import Buffer, Placement, aligned, height, least_height, live_bytes


class Found(NamedTuple):
    """The best placement of a search, whether it is optimal, and the number of steps."""

    places: Placement
    is_lowest: bool
    steps: int


def exact(buffers: Sequence[Buffer], start: Placement, steps: int) -> Found:
    """Returns the best placement found, at least as good as `start`.

    Searches for a placement below a height between the bound and the best one, and bisects this interval: a
    low target ends branches early, and so leads to good placements. Each target is tried with several orders
    of buffers, each time for a growing share of the steps. The limit is in steps, not in seconds, so that a
    program has the same plan on every machine. One step visits all remaining buffers, and recurses one level
    deeper: more than 600 buffers are not searched.
    """
    if len(buffers) > _MOST:
        return Found(start, height(buffers, start) <= least_height(buffers), 0)
    budget = steps
    best, highest, lowest = start, height(buffers, start), least_height(buffers)
    share = max(len(buffers) + len(buffers) // 4, steps // 32)
    orders = [sorted(buffers, key=key) for key in _keys(buffers)]
    guessed = target = lowest  # below `lowest` there is no placement, below `guessed` none was found
    while lowest < highest and steps > 0:
        for order in orders:
            search = _Search(order, target, min(share, steps))
            result = search.run()
            steps -= search.taken
            if result is not None:
                best, highest = result, height(buffers, result)
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
    return Found(best, lowest >= highest, budget - max(steps, 0))


_MOST = 600
"""Maximum depth of recursion."""


def _keys(buffers: Sequence[Buffer]) -> tuple[Callable[[Buffer], tuple[float | str, ...]], ...]:
    """Orders in which buffers that fit equally low are tried: by the most live bytes besides them, by time,
    by bytes.
    """
    live = live_bytes(buffers)
    beside = {b.name: max((n for time, n in live if b.begin <= time < b.end), default=0) for b in buffers}
    return (
        lambda b: (b.begin - b.end, -b.size * (b.end - b.begin), b.name),
        lambda b: (-beside[b.name], b.begin - b.end, b.name),
        lambda b: (-b.size, b.begin - b.end, b.name),
    )


class _Search:
    """Depth-first search over the order of buffers by offset.

    In some best placement each buffer is directly above a lower one. So the search puts the next buffer on
    placed ones, and after a failure only on one that follows. The rest is split at times that no buffer
    spans; each part is placed separately, and the first failure ends the branch.
    """

    def __init__(self, order: Sequence[Buffer], target: int, steps: int) -> None:
        self.buffers, self.target, self.given, self.steps = order, target, steps, steps
        times = sorted({b.begin for b in order})
        self.over = [(bisect_left(times, b.begin), bisect_left(times, b.end)) for b in order]
        """The range of sections of each buffer; a section of time begins with a buffer."""
        self.rest = [0] * len(times)
        """Bytes of each section that are not placed yet."""
        for b, (first, last) in zip(order, self.over, strict=True):
            for t in range(first, last):
                self.rest[t] += b.size
        self.beside = [
            [j for j, (low, high) in enumerate(self.over) if low < last and first < high and j != i]
            for i, (first, last) in enumerate(self.over)
        ]
        self.low = [0] * len(order)
        """The offset of each buffer: above the placed ones, or final once it is placed itself."""
        self.waits = [False] * len(order)
        """True for a buffer that only rests on one that is not placed yet."""

    @property
    def taken(self) -> int:
        """Number of steps so far."""
        return self.given - max(self.steps, 0)

    def run(self) -> Placement | None:
        """Returns a placement no higher than the target; None: there is none, or (`steps` below 0) none was
        found.
        """
        parts = self._apart(list(range(len(self.buffers))))
        for part in parts:
            if not self._place(part, 0):
                return None
        return {b.name: low for b, low in zip(self.buffers, self.low, strict=True)}

    def _apart(self, rest: list[int]) -> list[list[int]]:
        """Returns the buffers in groups with disjoint times, the smallest first."""
        groups: list[list[int]] = []
        end = -1
        for first, i in sorted((self.over[i][0], i) for i in rest):
            if first >= end:
                groups.append([])
            groups[-1].append(i)
            end = max(end, self.over[i][1])
        return sorted(map(sorted, groups), key=len) if len(groups) > 1 else [rest] if rest else []

    def _place(self, rest: list[int], floor: int) -> bool:
        """Branches on whether the lowest buffer is at its lowest place. If not, another one is below it."""
        ceiling = lowest = -1
        while True:
            self.steps -= 1
            options = self._options(rest, floor) if self.steps >= 0 else []
            ready = [option for option in options if not self.waits[option[1]]]
            if not ready:
                return False
            low = ready[0][0]
            i = self._most_needed([j for at, j in ready if at == low], low)
            if ceiling < 0:
                # buffers that fit below the lowest place of the others come first, or never better
                ceiling, lowest = min(at + self.buffers[j].size for at, j in options), low
            if low >= ceiling and low > lowest:
                return False
            others = [j for j in rest if j != i]
            before = self._put(low, i, others)
            for part in self._apart(others):
                if not self._place(part, low):
                    break
            else:
                return True
            self.low, self.rest, self.waits = before
            if self.steps < 0:
                return False
            waiting = set(others)
            tops = [max(floor, self.low[j]) + self.buffers[j].size for j in self.beside[i] if j in waiting]
            if not tops:
                return False
            self.low[i], self.waits[i] = max(low, min(tops)), True

    def _most_needed(self, lowest: list[int], low: int) -> int:
        """Returns, among the buffers that fit lowest, that of the section with the fewest of them.

        Ties are broken by the least free space.
        """
        if len(lowest) == 1:
            return lowest[0]
        counts = [0] * len(self.rest)
        for i in lowest:
            for t in range(*self.over[i]):
                counts[t] += 1
        room = [self.target - bytes - low for bytes in self.rest]
        needs = [min((counts[t], room[t]) for t in range(*self.over[i])) for i in lowest]
        return lowest[needs.index(min(needs))]

    def _options(self, rest: list[int], floor: int) -> list[tuple[int, int]]:
        """Returns (lowest place, buffer) of each buffer, the lowest first.

        Returns none if some section cannot contain its remaining buffers, which start at or above the lowest
        place of any of them.
        """
        options = []
        for i in rest:
            b = self.buffers[i]
            low = aligned(max(floor, self.low[i]), b.alignment)
            if low + b.size > self.target:
                return []
            options.append((low, i))
        options.sort()
        after = list(range(len(self.rest) + 1))  # the first section from there on that no lower buffer is in
        for low, i in options:
            t, last = self.over[i]
            while (t := _follow(after, t)) < last:
                if low + self.rest[t] > self.target:
                    return []
                after[t] = t + 1
        return options

    def _put(self, low: int, i: int, others: list[int]) -> tuple[list[int], list[int], list[bool]]:
        """Places a buffer below the others; returns the previous state."""
        before = self.low[:], self.rest[:], self.waits[:]
        top, waiting = low + self.buffers[i].size, set(others)
        for t in range(*self.over[i]):
            self.rest[t] -= top - low
        for j in self.beside[i]:
            if j in waiting and self.low[j] <= top:
                self.low[j], self.waits[j] = top, False
        self.low[i] = low
        return before


def _follow(after: list[int], t: int) -> int:
    """Returns the end of a chain, and shortens it."""
    while after[t] != t:
        after[t] = after[after[t]]
        t = after[t]
    return t
