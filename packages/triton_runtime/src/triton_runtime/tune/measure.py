"""Measures candidates side by side in interleaved rounds, dropping clear losers early."""

from __future__ import annotations

import math
import random
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from triton_runtime.errors import TritonRuntimeError
from triton_runtime.tune.decide import NOISE
from triton_runtime.tune.racing import contenders

_CHECK = 1.2
"""The contenders are recomputed each time the number of rounds grows by this factor."""


class Timer(Protocol):
    """Times one run of work on a device with cold caches."""

    def seconds(self, run: Callable[[], object], before: Callable[[], object] | None = None) -> float:
        """Seconds that the device is busy with the work of `run`; `before` is called first and not timed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureOptions:
    """Options of a measurement.

    `rounds` is the minimum number of times of a remaining candidate. After `trial` rounds, a candidate is
    dropped if its best time exceeds `loser` times the fastest median. `warm_up` runs before the first round
    are not counted.

    After `rounds`, candidates that affect the choice are measured further, up to `most` rounds and `seconds`.
    That ends once the side of the noise limit of each is certain, or known within `precision` of the fastest
    time. Times of a launch vary by some percent, and a choice by chance would differ in the next run.
    """

    rounds: int = 25
    trial: int = 3
    loser: float = 1.2
    warm_up: int = 1
    most: int = 2000
    precision: float = 0.001
    seconds: float = 1.0

    def __post_init__(self) -> None:
        if not (
            0 < self.trial <= self.rounds and self.loser >= 1 and self.warm_up >= 0 and self.precision >= 0
        ):
            raise ValueError(f"no measurement has such options: {self}")


def attempt(
    candidates: Mapping[str, Callable[[], object]], before: Callable[[], object]
) -> tuple[dict[str, Callable[[], object]], dict[str, str]]:
    """Runs each once, after `before`; returns those that can be measured, and the errors of the others (no
    memory...).
    """
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
    """The first line of an error message."""
    return str(error).strip().partition("\n")[0] or type(error).__name__


def measure(
    candidates: Mapping[str, Callable[[], object]],
    timer: Timer,
    options: MeasureOptions | None = None,
    *,
    before: Callable[[], object] | None = None,
    noise: float = NOISE,
) -> dict[str, list[float]]:
    """Seconds of each run, by candidate, most preferred first; `before` is called before each and not timed.

    `noise` is that of `decide`. Rounds cover all remaining candidates in random order: drifts of the device's
    clock affect all alike, and none always follows the same other one.
    """
    options = options or MeasureOptions()
    times: dict[str, list[float]] = {key: [] for key in candidates}
    _warm_up(candidates, options.warm_up, before)
    remaining = list(candidates)
    orders = random.Random(0)
    end, check = time.monotonic() + options.seconds, options.rounds
    for round_ in range(max(options.rounds, options.most)):
        if round_ == check:
            check = math.ceil(_CHECK * check)
            remaining = contenders({key: times[key] for key in remaining}, noise, options.precision)
            if time.monotonic() > end:
                break
        if not remaining:
            break
        for key in orders.sample(remaining, len(remaining)):
            times[key].append(timer.seconds(candidates[key], before))
        if options.trial <= round_ + 1 <= options.rounds:
            remaining = _rivals({key: times[key] for key in remaining}, options.loser)
    return times


def _warm_up(
    candidates: Mapping[str, Callable[[], object]], runs: int, before: Callable[[], object] | None
) -> None:
    for run in candidates.values():
        for _ in range(runs):
            if before is not None:
                before()
            run()


def _rivals(times: Mapping[str, Sequence[float]], loser: float) -> list[str]:
    """Candidates that do not clearly lose."""
    fastest = min(map(statistics.median, times.values()))
    return [key for key, values in times.items() if min(values) <= loser * fastest]
