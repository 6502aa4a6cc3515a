"""Which candidates still have to be measured: a race, which candidates leave once they are surely slower.

After O. Maron and A. Moore, "Hoeffding Races" (NIPS 1993), with standard errors in the place of Hoeffding's bound.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from triton_runtime.tune.decide import error_of_mean, middle_mean

_STANDARD_ERRORS = 3.0
"""A difference of more standard errors than these is real."""
_DRIFT = 0.0125
"""How far the times of one candidate drift from round to round, as a part of their mean. A slow drift does not show in the
spread of few times; it is taken to average out with their number."""
_OUT_OF_REACH = 0.02
"""As a part of the fastest time: a drift of the clock does not bring back a candidate that is over the limit by more."""


def contenders(times: Mapping[str, Sequence[float]], noise: float, precision: float) -> list[str]:
    """The candidates to measure further, until it is certain which is the first of those within `noise` of the fastest: all
    that are near the limit, so that drifts of the clock affect them alike. Empty where it is certain, or where every
    distance from the limit is known to `precision`.

    `times` are in seconds, by candidate in the stable order, of as many rounds each; `noise` and `precision` are parts of
    the fastest time.
    """
    means = {key: middle_mean(values) for key, values in times.items()}
    best = min(means, key=lambda key: means[key])
    over = {key: mean / means[best] - 1 for key, mean in means.items()}
    margins = {key: _margin(values, times[best], means[best]) for key, values in times.items()}
    near: list[str] = []
    for key in times:
        if key == best or over[key] + margins[key] <= noise:
            break  # those after it in the order cannot win
        if over[key] - margins[key] <= noise:
            near.append(key)
    if all(margins[key] <= precision for key in near):
        return []
    return [key for key in times if over[key] - margins[key] <= noise + _OUT_OF_REACH]


def _margin(values: Sequence[float], best: Sequence[float], fastest: float) -> float:
    """How well a candidate's distance from the best is known, as a part of the fastest time."""
    chance = math.hypot(error_of_mean(values), error_of_mean(best)) / fastest
    return _STANDARD_ERRORS * math.hypot(chance, _DRIFT / math.sqrt(len(values)))
