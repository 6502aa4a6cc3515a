"""Searches for small failing sets: by halves, and by delta debugging (Zeller and Hildebrandt, Simplifying and Isolating
Failure-Inducing Input, IEEE TSE 2002)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")


def smallest(low: int, high: int, fails: Callable[[int], bool]) -> int:
    """The smallest number from `low` to `high` that fails, if all above it do; `high` is known to. Whatever the numbers in
    between do, what comes back fails."""
    while low < high:
        middle = (low + high) // 2
        if fails(middle):
            high = middle
        else:
            low = middle + 1
    return high


def smallest_set(items: Sequence[T], fails: Callable[[Sequence[T]], bool]) -> list[T]:
    """A subset that fails, and of which no single item can be left out. All items together are known to fail."""
    left = list(items)
    parts = 2
    while left and parts <= max(len(left), 1) * 2:
        size = max(len(left) // parts, 1)
        for begin in range(0, len(left), size):
            rest = left[:begin] + left[begin + size :]
            if fails(rest):
                left = rest
                parts = max(parts - 1, 2)
                break
        else:
            if size == 1:
                break
            parts *= 2
    return left
