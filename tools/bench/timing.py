"""Fair timing of two ways to do the same: alternating rounds in one process, the median of the rounds' ratios."""

from __future__ import annotations

import ctypes
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Ratio", "compare", "keep_memory", "write_report"]

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # of <malloc.h>
_NEVER = 1 << 30

Run = Callable[[], object]


@dataclass(frozen=True, slots=True)
class Ratio:
    """Best seconds of a call of each side, and the median over rounds of ours / theirs."""

    ours: float
    theirs: float
    ratio: float

    def cells(self, unit: float = 1e-6) -> tuple[str, str, str]:
        """(ours, theirs, ratio) as text, times in `unit` seconds."""
        return f"{self.ours / unit:.1f}", f"{self.theirs / unit:.1f}", f"{self.ratio:.2f}"


def _round(run: Run, calls: int, settle: Run | None = None) -> float:
    if settle is not None:
        settle()
    start = time.perf_counter()
    for _ in range(calls):
        run()
    return (time.perf_counter() - start) / calls


def _calls_for(run: Run, seconds: float) -> int:
    run()
    once = max(min(_round(run, 1) for _ in range(3)), 1e-7)
    return max(1, int(seconds / once))


def compare(
    ours: Run, theirs: Run, *, rounds: int = 21, seconds: float = 0.05, settle: Run | None = None
) -> Ratio:
    """Times both in `rounds` alternating rounds of about `seconds` each; which goes first alternates too. Before each
    round `settle` is called, untimed: it waits for a device."""
    calls = (_calls_for(ours, seconds), _calls_for(theirs, seconds))
    pairs: list[tuple[float, float]] = []
    for i in range(rounds):
        if i % 2:
            b = _round(theirs, calls[1], settle)
            a = _round(ours, calls[0], settle)
        else:
            a = _round(ours, calls[0], settle)
            b = _round(theirs, calls[1], settle)
        pairs.append((a, b))
    ratio = statistics.median(a / b for a, b in pairs)
    return Ratio(min(a for a, _ in pairs), min(b for _, b in pairs), ratio)


def keep_memory() -> None:
    """Tells glibc to keep memory that is freed. Otherwise it returns large blocks to the system, or not, by a threshold
    that moves with what was freed before: steps of a model then cost hundreds of page faults or none, on either side, by
    chance."""
    library = ctypes.CDLL(None)
    for parameter in (_TRIM_THRESHOLD, _MMAP_THRESHOLD):
        library.mallopt(parameter, _NEVER)


def write_report(name: str, text: str) -> Path:
    """Writes `docs/benchmarks/<name>.md`."""
    path = Path(__file__).parents[2] / "docs" / "benchmarks" / f"{name}.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path
