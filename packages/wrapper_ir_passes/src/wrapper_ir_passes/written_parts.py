"""Which writes the bytes of a storage come from, as far as offsets can be told apart.

A write or a read of a window takes time in the windows that it may meet, not in all windows of the storage. Parts whose start and
size are multiples of one size (a byte, or `s0` bytes where a dimension is symbolic) are found by their place; these share no
bytes. All other parts are looked at one by one.
"""

from __future__ import annotations

import dataclasses
from bisect import bisect_left, bisect_right, insort
from collections.abc import Hashable, Iterator, Sequence
from operator import attrgetter, itemgetter

from wrapper_ir.errors import ExpressionError
from wrapper_ir.expr import Expr, Int, Monomial, Poly, expand

Number = int


@dataclasses.dataclass(frozen=True, slots=True)
class Part:
    """Bytes [start, start + size) of a storage, and how they came about; `layout` where only a tensor's elements there did.
    `time` orders the parts of one storage."""

    start: Expr
    size: Expr
    number: Number
    layout: Hashable = None
    time: int = 0


_Placed = tuple[int, int, Part]
"""A part, and its start and end in multiples of the size that they are counted in."""
_START, _END, _TIME = itemgetter(0), itemgetter(1), attrgetter("time")


class WrittenParts:
    """The parts of one storage."""

    def __init__(self) -> None:
        self._placed: dict[Monomial, list[_Placed]] = {}
        """By the size that they are counted in; in order, and apart from each other."""
        self._others: dict[tuple[Expr, Hashable, int], Part] = {}
        """By start, layout and time."""
        self._layouts: dict[tuple[Expr, Hashable], int] = {}
        """The times of the others that have a layout."""
        self._time = 0

    def add(self, part: Part) -> None:
        """Adds a part beside those that are there."""
        self._time += 1
        self._insert(dataclasses.replace(part, time=self._time))

    def write(self, part: Part) -> None:
        """Adds a part in place of the bytes that it surely covers; of parts with a layout, in place of the same elements."""
        if part.layout is None:
            for old in [*self._near(part.start, part.size)]:
                left = _without(old, part.start, part.size)
                if left != (old,):
                    self._remove(old)
                    for rest in left:
                        self._insert(rest)
        else:
            last = self._layouts.get((part.start, part.layout))
            if last is not None:
                self._remove(self._others[part.start, part.layout, last])
        self.add(part)

    def all(self) -> Sequence[Part]:
        """All parts, in the order of their writes."""
        placed = (part for parts in self._placed.values() for _, _, part in parts)
        return sorted((*placed, *self._others.values()), key=_TIME)

    def seen(self, start: Expr, size: Expr, layout: Hashable) -> Sequence[Part]:
        """The parts that a tensor may see, in the order of their writes: none from before a write of the same elements."""
        first = 0 if layout is None else self._layouts.get((start, layout), 0)
        near = (part for part in self._near(start, size) if part.time >= first)
        return sorted((part for part in near if _overlap(part.start, part.size, start, size)), key=_TIME)

    def _near(self, start: Expr, size: Expr) -> Iterator[Part]:
        """All parts but those that by their place share no byte with [start, start + size)."""
        found = _span(start, size)
        for unit, placed in self._placed.items():
            first, last = 0, len(placed)
            if found is not None and found[0] == unit:
                first = bisect_right(placed, found[1], key=_END)
                last = bisect_left(placed, found[2], key=_START)
            yield from (part for _, _, part in placed[first:last])
        yield from self._others.values()

    def _insert(self, part: Part) -> None:
        found = None if part.layout is not None else _span(part.start, part.size)
        if found is not None:
            unit, low, high = found
            placed = self._placed.setdefault(unit, [])
            if bisect_right(placed, low, key=_END) == bisect_left(placed, high, key=_START):
                insort(placed, (low, high, part), key=_START)
                return
        self._others[part.start, part.layout, part.time] = part
        if part.layout is not None:
            self._layouts[part.start, part.layout] = part.time

    def _remove(self, part: Part) -> None:
        if self._others.pop((part.start, part.layout, part.time), None) is not None:
            self._layouts.pop((part.start, part.layout), None)
            return
        found = _span(part.start, part.size)
        assert found is not None  # it was placed by that
        placed = self._placed[found[0]]
        del placed[bisect_left(placed, found[1], key=_START)]


def _span(start: Expr, size: Expr) -> tuple[Monomial, int, int] | None:
    """A size, and start and end of some bytes in multiples of it; None where there is no such size.

    It is not negative where there is a tensor of these bytes, which have not less than none.
    """
    try:
        first, length = expand(start).terms, expand(size).terms
    except ExpressionError:
        return None  # too long
    if len(length) != 1:
        return None
    ((unit, count),) = length.items()
    if count <= 0 or first.keys() - {unit}:
        return None
    low = first.get(unit, 0)
    return unit, low, low + count


def _without(part: Part, start: Expr, size: Expr) -> tuple[Part, ...]:
    """The parts that remain of one when each byte of [start, start + size) is written: all of it unless it is surely covered, less
    the bytes cut off by a write that is counted in the same size."""
    if _covers(start, size, part.start, part.size):
        return ()
    one, other = _span(part.start, part.size), _span(start, size)
    if part.layout is not None or one is None or other is None or one[0] != other[0]:
        return (part,)
    unit, low, high = one
    _, first, last = other
    if max(low, first) >= min(high, last):
        return (part,)
    ends = ((low, min(first, high)), (max(last, low), high))
    return tuple(
        dataclasses.replace(part, start=_times(unit, a), size=_times(unit, b - a)) for a, b in ends if a < b
    )


def _times(unit: Monomial, count: int) -> Expr:
    return Poly({unit: count} if count else {}).to_expr()


def _overlap(a: Expr, n: Expr, b: Expr, m: Expr) -> bool:
    """Whether [a, a + n) and [b, b + m) may share bytes."""
    ends = (a + n - b, b + m - a)
    return not any(isinstance(e, Int) and e.value <= 0 for e in ends)


def _covers(a: Expr, n: Expr, b: Expr, m: Expr) -> bool:
    """Whether [a, a + n) surely contains [b, b + m)."""
    before, after = b - a, (a + n) - (b + m)
    return all(isinstance(e, Int) and e.value >= 0 for e in (before, after))
