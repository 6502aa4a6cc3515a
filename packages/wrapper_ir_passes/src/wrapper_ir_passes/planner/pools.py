"""Groups buffers into pools, so that the peak stays near the live bytes."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, pairwise

from wrapper_ir_passes.planner.buffers import Buffer, Placement, height, least_height
from wrapper_ir_passes.planner.search import SearchBudget, pack


@dataclass(frozen=True, slots=True)
class Pool:
    """Buffers in one allocation of `size` bytes, in use from the first `begin` to the last `end`."""

    buffers: tuple[Buffer, ...]
    offsets: Placement
    size: int
    begin: int
    end: int

    def live_at(self, time: int) -> int:
        """Bytes of the buffers that are live at `time`."""
        return sum(b.size for b in self.buffers if b.begin <= time < b.end)


def held_bytes(spans: Sequence[Pool | Buffer], outside: Sequence[int]) -> list[int]:
    """Bytes in use at each time: those `outside`, and each pool or buffer from its begin to its end."""
    changes = [0] * (len(outside) + 1)
    for span in spans:
        changes[span.begin] += span.size
        changes[span.end] -= span.size
    return [own + beside for own, beside in zip(accumulate(changes), outside, strict=False)]


def plan_pools(
    buffers: Sequence[Buffer],
    outside: Sequence[int],
    kind: Mapping[str, Hashable],
    slack: float | None = 0.01,
    packer: Callable[[Sequence[Buffer]], Placement] | None = None,
) -> tuple[Pool, ...]:
    """Groups buffers into few pools, whose peak exceeds the live bytes by at most `slack` (a share).

    With None, there is one pool per kind. `outside` has the bytes of other users at each time; buffers of one
    `kind` may share. The plan starts with one pool per kind. While the limit is exceeded, the pool that
    wastes most at the peak is split into buffers that end before it, are live then, and begin after it. A
    pool of one buffer wastes nothing, so this terminates. Then pools are joined again, the largest first,
    while the limit is kept.
    """
    packer = packer or partial(pack, budget=SearchBudget())
    groups: dict[Hashable, list[Buffer]] = {}
    for b in buffers:
        groups.setdefault(kind[b.name], []).append(b)
    pools = [_pool(group, packer) for group in groups.values()]
    if slack is None:
        return tuple(pools)
    limit = int(max(held_bytes(buffers, outside), default=0) * (1 + slack))
    pools = _within(pools, outside, limit, packer)
    joiner = _Joiner(held_bytes(pools, outside), limit, packer)
    by_kind: dict[Hashable, list[Pool]] = {}
    for pool in sorted(pools, key=lambda pool: (-pool.size, pool.begin)):
        joiner.add(pool, by_kind.setdefault(kind[pool.buffers[0].name], []))
    return tuple(pool for group in by_kind.values() for pool in group)


def _within(
    pools: list[Pool], outside: Sequence[int], limit: int, packer: Callable[[Sequence[Buffer]], Placement]
) -> list[Pool]:
    """Returns the pools, split until the limit is kept."""
    steps = _SPLIT_STEPS
    while True:
        usage = held_bytes(pools, outside)
        worst = max(range(len(usage)), key=usage.__getitem__, default=0)
        wasted = [
            (pool.size - pool.live_at(worst), at)
            for at, pool in enumerate(pools)
            if pool.begin <= worst < pool.end and (steps > 0 or len(pool.buffers) <= _MOST_ALONE)
        ]
        most, at = max(wasted, default=(0, 0))
        if most <= 0 or usage[worst] <= limit:
            break
        parts = _split(pools[at], worst) if steps > 0 else [[b] for b in pools[at].buffers]
        steps -= sum(len(part) ** 2 for part in parts)
        pools[at : at + 1] = [_pool(part, packer) for part in parts]
    return pools


_SPLIT_STEPS = 4_000_000
"""Limit of the cost of splitting, in pairs of buffers. Beyond it, a wasteful pool is dissolved.

Such a pool has many buffers of all sizes, which no placement fits.
"""
_MOST_ALONE = 4_096
"""A pool of more buffers is not dissolved: the allocations would cost more than the waste."""
_JOIN_STEPS = 2_000_000
"""Limit of the cost of joining, in comparisons: enough for hundreds of pools of a model."""


class _Joiner:
    """Joins pools while the bytes in use stay below the limit."""

    def __init__(self, usage: list[int], limit: int, packer: Callable[[Sequence[Buffer]], Placement]) -> None:
        self.held, self.limit, self.packer = usage, limit, packer
        self.steps = _JOIN_STEPS

    def add(self, pool: Pool, others: list[Pool]) -> None:
        """Puts the pool into the first of the others that accepts it, otherwise adds it to them."""
        for at, other in enumerate(others):
            if self.steps < 0:
                break
            apart = pool.begin >= other.end or other.begin >= pool.end
            if not self._fits(
                pool, other, max(other.size, pool.size) if apart else min(other.size, pool.size)
            ):
                continue
            buffers = (*other.buffers, *pool.buffers)
            self.steps -= 8 * len(buffers)
            if not apart and not self._fits(pool, other, least_height(buffers)):
                continue
            self.steps -= len(buffers) ** 2
            joined = _pool(buffers, self.packer)
            if self._fits(pool, other, joined.size):
                for span, bytes in ((pool, -pool.size), (other, -other.size), (joined, joined.size)):
                    for time in range(span.begin, span.end):
                        self.held[time] += bytes
                others[at] = joined
                return
        others.append(pool)

    def _fits(self, a: Pool, b: Pool, size: int) -> bool:
        """Returns whether the limit is kept with one pool of this size in place of two."""
        times = sorted({a.begin, a.end, b.begin, b.end})
        self.steps -= 4 + (times[-1] - times[0]) // 64
        for first, last in pairwise(times):
            saving = (a.size if a.begin <= first < a.end else 0) + (b.size if b.begin <= first < b.end else 0)
            if size > saving and max(self.held[first:last]) + size - saving > self.limit:
                return False
        return True


def _pool(buffers: Sequence[Buffer], packer: Callable[[Sequence[Buffer]], Placement]) -> Pool:
    offsets = packer(buffers) if len(buffers) > 1 else {b.name: 0 for b in buffers}
    begin, end = min(b.begin for b in buffers), max(b.end for b in buffers)
    return Pool(tuple(buffers), offsets, height(buffers, offsets), begin, end)


def _split(pool: Pool, time: int) -> list[list[Buffer]]:
    parts: list[list[Buffer]] = [[], [], []]
    for b in pool.buffers:
        parts[0 if b.end <= time else 2 if b.begin > time else 1].append(b)
    nonempty = [part for part in parts if part]
    return (
        nonempty if len(nonempty) > 1 else [[b] for b in pool.buffers]
    )  # the remaining waste is for alignment
