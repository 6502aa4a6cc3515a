"""From measured times to a choice: a pure function, so that a record of times is a record of choices."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

__all__ = ["Decision", "decide", "error_of_median"]

_NORMAL_IQR = 1.349
"""The interquartile range of a normal distribution, in standard deviations."""
_MEDIAN_ERROR = 1.253
"""The standard error of a median, in standard errors of the mean."""
_SURE = 2.0
"""Differences of this many standard errors are believed."""
_ENOUGH = 0.5
"""A candidate may win with half as many times as the one that has most: fewer means that it was dropped early."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """`winner`: the key of the choice. `best`: the fastest by its median time. `tied`: all that the times do not tell from
    the fastest, in the stable order; the first of them wins. `medians` are in seconds."""

    winner: str
    best: str
    tied: tuple[str, ...]
    medians: Mapping[str, float]

    @property
    def inside_noise(self) -> bool:
        """Whether the order decided, not the times."""
        return len(self.tied) > 1


def decide(times: Mapping[str, Sequence[float]], order: Sequence[str], *, noise: float = 0.01) -> Decision:
    """The choice that these times (seconds, by candidate) lead to.

    `order` has all candidates, most preferred first. Candidates whose medians differ by less than `noise` of the
    faster one's, or by less than twice the standard error of the difference, are not told apart. Raises ValueError
    where no candidate of `order` has a time.
    """
    measured = {key: times[key] for key in order if times.get(key)}
    if not measured:
        raise ValueError("no candidate was measured")
    most = max(map(len, measured.values()))
    medians = {key: statistics.median(values) for key, values in measured.items()}
    able = [key for key, values in measured.items() if len(values) >= _ENOUGH * most]
    best = min(able, key=lambda key: medians[key])  # the first of equals: `able` is in the stable order
    tied = tuple(key for key in able if _equal(measured[key], measured[best], noise))
    return Decision(winner=tied[0], best=best, tied=tied, medians=medians)


def _equal(a: Sequence[float], b: Sequence[float], noise: float) -> bool:
    difference = statistics.median(a) - statistics.median(b)
    error = math.hypot(error_of_median(a), error_of_median(b))
    return difference <= max(noise * statistics.median(b), _SURE * error)


def error_of_median(values: Sequence[float]) -> float:
    """The standard error of the median, from the spread of the middle half: outliers do not count."""
    if len(values) < 4:
        return 0.0
    low, _, high = statistics.quantiles(values, n=4)
    return _MEDIAN_ERROR * (high - low) / _NORMAL_IQR / math.sqrt(len(values))
