"""Tracks which writes the bytes of a storage come from, as far as offsets are comparable.

A write or a read of a window takes time in the windows that it may meet, not in all windows of the storage.
A part is *placed* if its start and size are multiples of one unit: a byte, or `s0` bytes for a symbolic
dimension. Placed parts of one unit are disjoint and found by bisection. All other parts are visited one by
one.
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
    """Bytes [start, start + size) of a storage, and the `number` of their origin.

    With a `layout`, only the elements of a tensor of that layout have it. `time` orders the parts of one
    storage.
    """

    start: Expr
    size: Expr
    number: Number
    layout: Hashable = None
    time: int = 0


_Placed = tuple[int, int, Part]
"""Start and end in multiples of the unit, and the part."""
_START, _END, _TIME = itemgetter(0), itemgetter(1), attrgetter("time")


class WrittenParts:
    """The parts of one storage."""

    def __init__(self) -> None:
        self._placed: dict[Monomial, list[_Placed]] = {}
        """Disjoint parts by their unit, in order."""
        self._others: dict[tuple[Expr, Hashable, int], Part] = {}
        """The other parts, by start, layout and time."""
        self._layouts: dict[tuple[Expr, Hashable], int] = {}
        """The times of the others that have a layout."""
        self._time = 0

    def add(self, part: Part) -> None:
        """Adds a part beside the existing ones."""
        self._time += 1
        self._insert(dataclasses.replace(part, time=self._time))

    def write(self, part: Part) -> None:
        """Adds a part in place of the bytes that it is known to cover.

        A part with a layout replaces only the latest part of the same elements.
        """
        if part.layout is None:
            for old in [*self._near(part.start, part.size)]:
                remains = _without(old, part.start, part.size)
                if remains != (old,):
                    self._remove(old)
                    for rest in remains:
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

    def visible(self, start: Expr, size: Expr, layout: Hashable) -> Sequence[Part]:
        """Returns the parts that a tensor may see, in the order of their writes.

        Parts from before the latest write of the same elements are omitted.
        """
        first = 0 if layout is None else self._layouts.get((start, layout), 0)
        near = (part for part in self._near(start, size) if part.time >= first)
        return sorted((part for part in near if _overlap(part.start, part.size, start, size)), key=_TIME)

    def _near(self, start: Expr, size: Expr) -> Iterator[Part]:
        """Yields all parts except for placed ones that are outside of [start, start + size)."""
        span = _span(start, size)
        for unit, placed in self._placed.items():
            first, last = 0, len(placed)
            if span is not None and span[0] == unit:
                first = bisect_right(placed, span[1], key=_END)
                last = bisect_left(placed, span[2], key=_START)
            yield from (part for _, _, part in placed[first:last])
        yield from self._others.values()

    def _insert(self, part: Part) -> None:
        span = None if part.layout is not None else _span(part.start, part.size)
        if span is not None:
            unit, low, high = span
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
        span = _span(part.start, part.size)
        assert span is not None  # it was placed by that
        placed = self._placed[span[0]]
        del placed[bisect_left(placed, span[1], key=_START)]


def _span(start: Expr, size: Expr) -> tuple[Monomial, int, int] | None:
    """Returns a unit, and the start and end of some bytes in multiples of it; None if no unit divides both.

    The unit is not negative if these are the bytes of a tensor, whose number is not.
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
    """Returns the parts that remain of one after a write of each byte of [start, start + size).

    Nothing remains of a part that is known to be covered. A write in the same unit cuts bytes off; otherwise,
    all of the part remains.
    """
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
    """Returns whether [a, a + n) and [b, b + m) may share bytes."""
    ends = (a + n - b, b + m - a)
    return not any(isinstance(e, Int) and e.value <= 0 for e in ends)


def _covers(a: Expr, n: Expr, b: Expr, m: Expr) -> bool:
    """Returns whether [a, a + n) is known to contain [b, b + m)."""
    before, after = b - a, (a + n) - (b + m)
    return all(isinstance(e, Int) and e.value >= 0 for e in (before, after))
