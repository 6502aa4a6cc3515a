"""Figures of the tables: the best peer, ratios, geometric means, bytes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

MIB = 1 << 20
TOLERANCES = {"": 1e-4, "bf16": 3e-2, "int8": 2e-2, "int8_dynamic": 1e-1}
"""Largest difference from eager by form, over the largest magnitude of the results (at least 1).

Runtimes that round activations to int8 differ in where they do, and in the scales.
"""


def is_right(difference: float, magnitude: float, tolerance: float = TOLERANCES[""]) -> bool:
    """Whether results agree with eager; a difference that is not a number does not."""
    return difference <= tolerance * max(1.0, magnitude)


def geometric_mean(ratios: Iterable[float]) -> float:
    """Returns NaN for no ratios."""
    logarithms = [math.log(ratio) for ratio in ratios]
    return math.exp(sum(logarithms) / len(logarithms)) if logarithms else math.nan


def over_best(times: Mapping[str, float], side: str) -> float:
    """A side's time over the best of the others; NaN if one of them is missing."""
    others = [seconds for name, seconds in times.items() if name != side]
    return times[side] / min(others) if side in times and others else math.nan


def beyond_weights(numbers: Mapping[str, float]) -> float:
    """Bytes resident beyond the pages of the model's file that are mapped.

    Copies of weights, as runtimes make them to change the layout, are among them.
    """
    return (numbers["resident"] - numbers["file"]) * 1024
