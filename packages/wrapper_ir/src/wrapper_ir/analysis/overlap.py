"""Decides exactly whether two tensors overlap in memory, from sizes, strides and offsets."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

_STEPS = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Geometry:
    """The location of a tensor: its storage, its layout and offset in elements, and the bytes of one
    element."""

    storage: Hashable
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    itemsize: int

    @property
    def is_empty(self) -> bool:
        """True if it has no elements."""
        return 0 in self.sizes

    @property
    def reach(self) -> int:
        """The number of elements from the first to the last, inclusive."""
        return 1 + sum((n - 1) * s for n, s in zip(self.sizes, self.strides, strict=True))

    def has_layout(self, sizes: tuple[int, ...], strides: tuple[int, ...]) -> bool:
        """Returns whether the sizes, and the strides of dimensions longer than 1, are equal to these."""
        return self.sizes == sizes and all(n < 2 or a == b for n, a, b in zip(sizes, self.strides, strides))


def overlap(a: Geometry, b: Geometry) -> bool:
    """Returns whether any byte belongs to both.

    Exact, unless the layouts are so complex that a bounded search does not end; these count as overlapping.
    """
    if a.storage != b.storage or a.is_empty or b.is_empty:
        return False
    distance = b.offset * b.itemsize - a.offset * a.itemsize
    if distance >= a.reach * a.itemsize or -distance >= b.reach * b.itemsize:
        return False
    # Some index of a, in bytes, less some index of b is the distance: sum(x * stride) == distance, -m < x <
    # n.
    ranges: dict[int, tuple[int, int]] = {}
    for tensor, sign in ((a, 1), (b, -1)):
        dims = (*zip(tensor.sizes, (s * tensor.itemsize for s in tensor.strides)), (tensor.itemsize, 1))
        for size, stride in dims:
            if size > 1 and stride:
                low, high = ranges.get(stride, (0, 0))
                ranges[stride] = (low, high + size - 1) if sign > 0 else (low - size + 1, high)
    terms = sorted(((stride, *r) for stride, r in ranges.items()), reverse=True)
    return _reaches(distance, tuple(terms))


def _reaches(target: int, terms: tuple[tuple[int, int, int], ...]) -> bool:
    """Returns whether sum(x * stride) == target for some low <= x <= high; terms are (stride, low, high),
    widest first."""
    floors, ceilings = [0], [0]  # the least and the greatest sums of the following terms
    for stride, low, high in reversed(terms):
        floors.append(floors[-1] + low * stride)
        ceilings.append(ceilings[-1] + high * stride)
    floors.reverse()
    ceilings.reverse()
    pending = [(0, target)]
    visited: set[tuple[int, int]] = set()
    while pending:
        position, rest = pending.pop()
        if position == len(terms):
            if rest == 0:
                return True
            continue
        if (position, rest) in visited:
            continue
        visited.add((position, rest))
        if len(visited) > _STEPS:
            return True
        stride, low, high = terms[position]
        first = max(low, -((ceilings[position + 1] - rest) // stride))
        last = min(high, (rest - floors[position + 1]) // stride)
        if last - first > _STEPS:
            return True
        pending += [(position + 1, rest - x * stride) for x in range(first, last + 1)]
        if len(pending) > _STEPS:
            return True
    return False
