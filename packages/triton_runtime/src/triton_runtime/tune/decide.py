"""Maps measured times to a choice: a pure function, so that a record of times is a record of choices."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

NOISE = 0.015
"""The default of relative differences that are ignored: times of one kernel in two runs differ by as much."""
_SURE = 2.0
"""Differences of this many standard errors count."""
_ENOUGH, _MANY = 0.5, 12
"""A candidate may win with half as many times as the most measured one, or with 12: fewer mean an early drop.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The result of a comparison of times.

    `winner` is the key of the choice. `best` has the fastest mean time. `tied` has all candidates that are
    indistinguishable from it, in the stable order; the first of them wins. `means` are of the middle half of
    times, in seconds.
    """

    winner: str
    best: str
    tied: tuple[str, ...]
    means: Mapping[str, float]

    @property
    def inside_noise(self) -> bool:
        """True if the order decided, not the times."""
        return len(self.tied) > 1


def decide(times: Mapping[str, Sequence[float]], order: Sequence[str], *, noise: float = NOISE) -> Decision:
    """Decides by times (seconds, by candidate).

    `order` has all candidates, most preferred first. Two candidates tie if their means differ by less than
    `noise` of the faster one, or by less than twice the standard error of the difference. Raises ValueError
    if no candidate of `order` has a time.
    """
    measured = {key: times[key] for key in order if times.get(key)}
    if not measured:
        raise ValueError("no candidate was measured")
    enough = min(_MANY, _ENOUGH * max(map(len, measured.values())))
    means = {key: middle_mean(values) for key, values in measured.items()}
    able = [key for key, values in measured.items() if len(values) >= enough]
    # the first among equals: `able` is in the stable order
    best = min(able, key=lambda key: means[key])
    tied = tuple(key for key in able if _equal(measured[key], measured[best], noise))
    return Decision(winner=tied[0], best=best, tied=tied, means=means)


def _equal(a: Sequence[float], b: Sequence[float], noise: float) -> bool:
    fast = middle_mean(b)
    error = math.hypot(error_of_mean(a), error_of_mean(b))
    return middle_mean(a) - fast <= max(noise * fast, _SURE * error)


def middle_mean(values: Sequence[float]) -> float:
    """The interquartile mean: robust to outliers, and finer than the ticks of a clock. Of three values it is
    the median.
    """
    ordered = sorted(values)
    cut = _cut(len(ordered))
    return statistics.fmean(ordered[cut : len(ordered) - cut])


def _cut(count: int) -> int:
    """The number of smallest, and of largest, values to ignore."""
    return (count + 1) // 4


def error_of_mean(values: Sequence[float]) -> float:
    """The standard error of `middle_mean`, a trimmed mean, from the Winsorized deviation (Tukey and
    McLaughlin).
    """
    if len(values) < 4:
        return 0.0
    ordered = sorted(values)
    cut = _cut(len(ordered))
    middle = ordered[cut : len(ordered) - cut]
    winsorized = [middle[0]] * cut + middle + [middle[-1]] * cut
    # not `pstdev`, which computes with fractions and is 20 times slower
    mean = statistics.fmean(winsorized)
    return math.sqrt(math.fsum((value - mean) ** 2 for value in winsorized)) / len(middle)
