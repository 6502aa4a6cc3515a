"""Selects the candidates to measure further: a race that candidates leave once they are certainly slower.

After O. Maron and A. Moore, "Hoeffding Races" (NIPS 1993), with standard errors in place of Hoeffding's
bound.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from triton_runtime.tune.decide import error_of_mean, middle_mean

_STANDARD_ERRORS = 3.0
"""A larger number of standard errors makes a difference significant."""
_DRIFT = 0.0125
"""The drift of one candidate's times from round to round, relative to their mean.

A slow drift does not show in the spread of few times; it is assumed to average out with their number.
"""
_OUT_OF_REACH = 0.02
"""A candidate that exceeds the limit by more, relative to the fastest time, is not revived by clock drift."""


def contenders(times: Mapping[str, Sequence[float]], noise: float, precision: float) -> list[str]:
    """The candidates to measure further, until the first one within `noise` of the fastest is certain.

    They are all candidates near the limit, so that drifts of the clock affect them alike. Empty if the choice
    is certain, or if every distance from the limit is known to `precision`. `times` are in seconds, by
    candidate in the stable order, with equal numbers of rounds; `noise` and `precision` are relative to the
    fastest time.
    """
    means = {key: middle_mean(values) for key, values in times.items()}
    best = min(means, key=lambda key: means[key])
    over = {key: mean / means[best] - 1 for key, mean in means.items()}
    margins = {key: _margin(values, times[best], means[best]) for key, values in times.items()}
    near: list[str] = []
    for key in times:
        if key == best or over[key] + margins[key] <= noise:
            # later ones in the order cannot win
            break
        if over[key] - margins[key] <= noise:
            near.append(key)
    if all(margins[key] <= precision for key in near):
        return []
    return [key for key in times if over[key] - margins[key] <= noise + _OUT_OF_REACH]


def _margin(values: Sequence[float], best: Sequence[float], fastest: float) -> float:
    """The uncertainty of a candidate's distance from the best, relative to the fastest time."""
    chance = math.hypot(error_of_mean(values), error_of_mean(best)) / fastest
    return _STANDARD_ERRORS * math.hypot(chance, _DRIFT / math.sqrt(len(values)))
