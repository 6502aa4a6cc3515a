"""Searches for small failing sets by bisection and by delta debugging.

Zeller and Hildebrandt, Simplifying and Isolating Failure-Inducing Input, IEEE TSE 2002.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")


def smallest(low: int, high: int, fails: Callable[[int], bool]) -> int:
    """Finds the smallest failing number from `low` to `high` if all above it fail; `high` must fail.

    If failures are not monotonic, the result still fails.
    """
    while low < high:
        middle = (low + high) // 2
        if fails(middle):
            high = middle
        else:
            low = middle + 1
    return high


def smallest_set(items: Sequence[T], fails: Callable[[Sequence[T]], bool]) -> list[T]:
    """Finds a failing subset from which no single item can be removed. All items together must fail."""
    remaining = list(items)
    parts = 2
    while remaining and parts <= max(len(remaining), 1) * 2:
        size = max(len(remaining) // parts, 1)
        for begin in range(0, len(remaining), size):
            rest = remaining[:begin] + remaining[begin + size :]
            if fails(rest):
                remaining = rest
                parts = max(parts - 1, 2)
                break
        else:
            if size == 1:
                break
            parts *= 2
    return remaining
