"""The distance of numbers, to reuse results for other sizes."""

from __future__ import annotations

import math
from collections.abc import Iterable


def distance(pairs: Iterable[tuple[float, float]]) -> float:
    """The sum of differences of base-2 logarithms; those of numbers below 1 count as -1."""
    return sum(abs(_log2(a) - _log2(b)) for a, b in pairs)


def _log2(x: float) -> float:
    return math.log2(x) if x >= 1 else -1.0
