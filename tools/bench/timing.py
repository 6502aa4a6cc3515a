"""Fair timing of several ways to do the same: alternating rounds in one process, the median of the rounds'
ratios.
"""

from __future__ import annotations

import ctypes
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # of <malloc.h>
_NEVER = 1 << 30

Run = Callable[[], object]
Clock = Callable[[], float]
"""Seconds since some moment."""
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Ratio:
    """Best seconds of a call of each side, and the median over rounds of ours / theirs."""

    ours: float
    theirs: float
    ratio: float

    def cells(self, unit: float = 1e-6) -> tuple[str, str, str]:
        """(ours, theirs, ratio) as text, times in `unit` seconds."""
        return f"{self.ours / unit:.1f}", f"{self.theirs / unit:.1f}", f"{self.ratio:.2f}"


def alternate(sides: Mapping[str, Callable[[], T]], rounds: int) -> dict[str, list[T]]:
    """Returns the measurements of each side, one value per round.

    Alternating rounds expose all sides to the same load. The order of sides changes from round to round.
    """
    names = list(sides)
    measurements: dict[str, list[T]] = {name: [] for name in names}
    for index in range(rounds):
        first = index % len(names)
        for name in names[first:] + names[:first]:
            measurements[name].append(sides[name]())
    return measurements


def median_ratio(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """The median over rounds of ours / theirs, which a round that was disturbed as a whole does not move."""
    return statistics.median(a / b for a, b in zip(ours, theirs, strict=True))


def timed(run: Callable[[], T], clock: Clock = time.perf_counter) -> tuple[float, T]:
    """The seconds of one call by `clock`, and its result."""
    start = clock()
    result = run()
    return clock() - start, result


def best_seconds(run: Run, rounds: int, clock: Clock = time.process_time) -> float:
    """The shortest of several calls."""
    return min(timed(run, clock)[0] for _ in range(rounds))


def compare(
    ours: Run,
    theirs: Run,
    *,
    rounds: int = 21,
    seconds: float = 0.05,
    settle: Run | None = None,
    clock: Clock = time.perf_counter,
) -> Ratio:
    """Times both in alternating rounds of about `seconds` each.

    Before each round `settle` is called, untimed: it waits for a device.
    """

    def side(run: Run) -> Callable[[], float]:
        run()
        calls = max(1, int(seconds / max(best_seconds(run, 3, clock), 1e-7)))

        def repeated() -> None:
            for _ in range(calls):
                run()

        def measured() -> float:
            if settle is not None:
                settle()
            return timed(repeated, clock)[0] / calls

        return measured

    times = alternate({"ours": side(ours), "theirs": side(theirs)}, rounds)
    return Ratio(min(times["ours"]), min(times["theirs"]), median_ratio(times["ours"], times["theirs"]))


def keep_memory() -> None:
    """Configures glibc to keep freed memory.

    Otherwise it returns large blocks to the system, or not, by a threshold that depends on earlier frees:
    steps of a model then cost hundreds of page faults or none, on either side, by chance.
    """
    library = ctypes.CDLL(None)
    for parameter in (_TRIM_THRESHOLD, _MMAP_THRESHOLD):
        library.mallopt(parameter, _NEVER)
