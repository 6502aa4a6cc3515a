"""Measures candidates side by side: in interleaved rounds, dropping clear losers early."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from triton_runtime.errors import TritonRuntimeError
from triton_runtime.tune.decide import error_of_median

__all__ = ["MeasureOptions", "Timer", "attempt", "measure", "reason"]


_SURE = 3.0
"""Differences of more standard errors are real."""
_CHECK = 25
"""Rounds after which precision is looked at again."""
_FAR = 0.02
"""A part of the fastest time: candidates that surely lose as much are no matter of noise."""


class Timer(Protocol):
    """Times one run of work on a device, from cold caches."""

    def seconds(self, run: Callable[[], object], before: Callable[[], object] | None = None) -> float:
        """How long the device is busy with what `run` does, in seconds; `before` is called first, and not timed."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureOptions:
    """`rounds`: times that are taken of a candidate that stays, at least. After `trial` rounds, a candidate is dropped whose
    best time is more than `loser` times the fastest median. `warm_up`: runs before the first round, which are not counted.

    After `rounds`, more are taken, up to `most` and for `seconds`, of those that are not surely slower than the fastest:
    until the standard error of each median is below `precision` of the fastest one. What one launch takes varies by some
    percent, and differences that are not known well would be decided by the order of the candidates."""

    rounds: int = 25
    trial: int = 3
    loser: float = 1.2
    warm_up: int = 1
    most: int = 500
    precision: float = 0.002
    seconds: float = 1.0

    def __post_init__(self) -> None:
        if not (
            0 < self.trial <= self.rounds and self.loser >= 1 and self.warm_up >= 0 and self.precision >= 0
        ):
            raise ValueError(f"no measurement has such options: {self}")


def attempt(
    candidates: Mapping[str, Callable[[], object]], before: Callable[[], object]
) -> tuple[dict[str, Callable[[], object]], dict[str, str]]:
    """Runs each once, `before` first: those that can be measured, and why the others cannot (no memory, say)."""
    able: dict[str, Callable[[], object]] = {}
    failed: dict[str, str] = {}
    for key, run in candidates.items():
        try:
            before()
            run()
        except (TritonRuntimeError, RuntimeError) as error:
            failed[key] = reason(error)
        else:
            able[key] = run
    return able, failed


def reason(error: Exception) -> str:
    """The first line of what an error says."""
    return str(error).strip().partition("\n")[0] or type(error).__name__


def measure(
    candidates: Mapping[str, Callable[[], object]],
    timer: Timer,
    options: MeasureOptions | None = None,
    *,
    before: Callable[[], object] | None = None,
) -> dict[str, list[float]]:
    """Seconds of each run, by candidate; `before` is called before each, and not timed. Rounds go over all that are left,
    each beginning with another one: drifts of the device's clock meet all alike, and none always runs behind the same other
    one."""
    options = options or MeasureOptions()
    times: dict[str, list[float]] = {key: [] for key in candidates}
    left = list(candidates)
    for run in candidates.values():
        for _ in range(options.warm_up):
            if before is not None:
                before()
            run()
    if not left:
        return times
    end = time.monotonic() + options.seconds
    for round_ in range(max(options.rounds, options.most)):
        if round_ >= options.rounds and (round_ - options.rounds) % _CHECK == 0:
            left = _unsettled({key: times[key] for key in left}, options.precision)
            if not left or time.monotonic() > end:
                break
        start = round_ % len(left)
        for key in left[start:] + left[:start]:
            times[key].append(timer.seconds(candidates[key], before))
        if round_ + 1 >= options.trial and len(left) > 1:
            fastest = min(statistics.median(times[key]) for key in left)
            left = [key for key in left if min(times[key]) <= options.loser * fastest]
        if len(left) == 1:
            break
    return times


def _unsettled(times: Mapping[str, Sequence[float]], precision: float) -> list[str]:
    """Those that may be as fast as the fastest; none where all their medians are precise enough."""
    medians = {key: statistics.median(values) for key, values in times.items()}
    errors = {key: error_of_median(values) for key, values in times.items()}
    fastest = min(medians, key=lambda key: medians[key])
    allowed = precision * medians[fastest]
    close = [
        key
        for key in times
        if medians[key] - medians[fastest]
        <= _SURE * math.hypot(errors[key], errors[fastest]) + _FAR * medians[fastest]
    ]
    return close if any(errors[key] > allowed for key in close) else []
