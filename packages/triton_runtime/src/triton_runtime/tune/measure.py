"""Measures candidates side by side: in interleaved rounds, dropping clear losers early."""

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
"""With so many times the rounds, it is looked again who may still win."""


class Timer(Protocol):
    """Times one run of work on a device, from cold caches."""

    def seconds(self, run: Callable[[], object], before: Callable[[], object] | None = None) -> float:
        """How long the device is busy with what `run` does, in seconds; `before` is called first, and not timed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureOptions:
    """`rounds`: times that are taken of a candidate that stays, at least. After `trial` rounds, a candidate is dropped whose
    best time is more than `loser` times the fastest median. `warm_up`: runs before the first round, which are not counted.

    After `rounds`, more are taken, up to `most` and for `seconds`, of those that the choice hangs on: until it is sure on
    which side of the limit of noise each stands, or that is within `precision` of the fastest time. What one launch takes
    varies by some percent, and a choice that hangs on chance would be another one in the next run."""

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
    noise: float = NOISE,
) -> dict[str, list[float]]:
    """Seconds of each run, by candidate, most preferred first; `before` is called before each, and not timed. `noise`: as
    `decide` is told. Rounds go over all that are left, each in another order: drifts of the device's clock meet all alike,
    and none always runs after the same other one."""
    options = options or MeasureOptions()
    times: dict[str, list[float]] = {key: [] for key in candidates}
    _warm_up(candidates, options.warm_up, before)
    left = list(candidates)
    orders = random.Random(0)
    end, check = time.monotonic() + options.seconds, options.rounds
    for round_ in range(max(options.rounds, options.most)):
        if round_ == check:
            check = math.ceil(_CHECK * check)
            left = contenders({key: times[key] for key in left}, noise, options.precision)
            if time.monotonic() > end:
                break
        if not left:
            break
        for key in orders.sample(left, len(left)):
            times[key].append(timer.seconds(candidates[key], before))
        if options.trial <= round_ + 1 <= options.rounds:
            left = _rivals({key: times[key] for key in left}, options.loser)
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
    """Those that do not clearly lose."""
    fastest = min(map(statistics.median, times.values()))
    return [key for key, values in times.items() if min(values) <= loser * fastest]
