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


def unsettled(times: Mapping[str, Sequence[float]], noise: float, precision: float) -> list[str]:
    """The candidates that have to be measured further to be sure which comes first of those within `noise` of the fastest;
    none where that is sure, or where all distances from that limit are known to `precision` of the fastest time.

    `times` are in the stable order, of as many rounds each.
    """
    means = {key: middle_mean(values) for key, values in times.items()}
    best = min(means, key=lambda key: means[key])
    fastest, least = means[best], error_of_mean(times[best])
    margins = {
        key: _SURE
        * math.hypot(error_of_mean(values) / fastest, least / fastest, _SLOW / math.sqrt(len(values)))
        for key, values in times.items()
    }
    over = {key: mean / fastest - 1 for key, mean in means.items()}
    able, open_ = [], []
    for key in times:
        if key != best and over[key] - margins[key] > noise:
            continue
        able.append(key)
        if key == best or over[key] + margins[key] <= noise:
            break  # whatever comes behind it cannot win
        open_.append(key)
    if all(margins[key] <= precision for key in open_):
        return []
    return [key for key in times if key in able or over[key] <= margins[key]]
