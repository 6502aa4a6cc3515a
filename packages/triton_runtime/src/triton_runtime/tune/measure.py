"""Measures candidates side by side: in interleaved rounds, dropping clear losers early."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from triton_runtime.errors import TritonRuntimeError

__all__ = ["MeasureOptions", "Timer", "attempt", "measure", "reason"]


class Timer(Protocol):
    """Times one run of work on a device, from cold caches."""

    def seconds(self, run: Callable[[], object], before: Callable[[], object] | None = None) -> float:
        """How long the device is busy with what `run` does, in seconds; `before` is called first, and not timed."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureOptions:
    """`rounds`: times that are taken of a candidate that stays. After `trial` rounds, a candidate is dropped whose best
    time is more than `loser` times the fastest median. `warm_up`: runs before the first round, which are not counted."""

    rounds: int = 25
    trial: int = 3
    loser: float = 1.2
    warm_up: int = 1

    def __post_init__(self) -> None:
        if not (0 < self.trial <= self.rounds and self.loser >= 1 and self.warm_up >= 0):
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
    """Seconds of each run, by candidate; `before` is called before each, and not timed. Rounds go over all that are left, each beginning with another one: drifts of
    the device's clock meet all alike, and none always runs behind the same other one."""
    options = options or MeasureOptions()
    times: dict[str, list[float]] = {key: [] for key in candidates}
    left = list(candidates)
    for run in candidates.values():
        for _ in range(options.warm_up):
            if before is not None:
                before()
            run()
    for round_ in range(options.rounds):
        start = round_ % len(left) if left else 0
        for key in left[start:] + left[:start]:
            times[key].append(timer.seconds(candidates[key], before))
        if round_ + 1 >= options.trial and len(left) > 1:
            fastest = min(statistics.median(times[key]) for key in left)
            left = [key for key in left if min(times[key]) <= options.loser * fastest]
        if len(left) == 1:
            break
    return times
