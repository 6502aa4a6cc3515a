"""How far a choice is made: the candidates that it still hangs on."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from triton_runtime.tune.decide import error_of_mean, middle_mean

__all__ = ["unsettled"]

_SURE = 3.0
"""Differences of more standard errors are real."""
_SLOW = 0.0125
"""What times of a candidate vary by besides, as a part of them, from one to the next: what varies slowly, and so does not
show in few times, is taken to average out with their number all the same."""
_FAR = 0.02
"""As a part of the fastest time: who is slower than the limit by as much is not brought back by a drift of the clock."""


def unsettled(times: Mapping[str, Sequence[float]], noise: float, precision: float) -> list[str]:
    """The candidates that have to be measured further to be sure which comes first of those within `noise` of the fastest:
    all that are near, so that drifts meet them alike. None where that is sure, or where all distances from that limit are
    known to `precision` of the fastest time.

    `times` are in the stable order, of as many rounds each.
    """
    means = {key: middle_mean(values) for key, values in times.items()}
    best = min(means, key=lambda key: means[key])
    over = {key: mean / means[best] - 1 for key, mean in means.items()}
    margins = {key: _margin(values, times[best], means[best]) for key, values in times.items()}
    open_ = []
    for key in times:
        if key == best or over[key] + margins[key] <= noise:
            break  # whatever comes behind it cannot win
        if over[key] - margins[key] <= noise:
            open_.append(key)
    if all(margins[key] <= precision for key in open_):
        return []
    return [key for key in times if over[key] - margins[key] <= noise + _FAR]


def _margin(values: Sequence[float], best: Sequence[float], fastest: float) -> float:
    """How well a candidate's distance from the best is known, as a part of the fastest time."""
    chance = math.hypot(error_of_mean(values), error_of_mean(best)) / fastest
    return _SURE * math.hypot(chance, _SLOW / math.sqrt(len(values)))
