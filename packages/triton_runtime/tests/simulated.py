"""Kernels on a simulated device with times as noisy as a GPU's."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

TICK = 32e-9
"""Seconds between two values of the device's clock."""
LATE, DELAY = 0.03, 0.15
"""The fraction of launches that start late, and their mean delay as a fraction."""
COLD_START, COLD = 30, 1.03
"""The first runs, and their slowdown."""
MODES = 0.25
"""The fraction of candidates that are slower in some of their runs."""


def some_kernel(rng: random.Random) -> list[float]:
    """Seconds of 4 to 13 candidates: many nearly equal, some a few percent slower, some clear losers."""
    fastest = math.exp(rng.uniform(math.log(5.5e-6), math.log(50e-6)))
    spans = [(0.0, 0.004)] * 6 + [(0.004, 0.025)] * 5 + [(0.025, 0.1)] * 4 + [(0.1, 0.6)] * 5
    return [fastest * (1 + rng.uniform(*rng.choice(spans))) for _ in range(rng.randint(4, 13))]


class Unsteady:
    """A timer of runs that return the index of a candidate of `kernel`.

    One run of a candidate varies by 1 to 2 %, all of its times drift by `wander` over about a thousand runs,
    and all candidates drift with the device's clock. Some runs start late, some candidates have two modes,
    and times are whole ticks.
    """

    def __init__(self, kernel: list[float], rng: random.Random, wander: float) -> None:
        self.kernel, self.rng, self.wander = kernel, rng, wander
        self.taken = 0
        # the same in each run
        traits = random.Random(repr(kernel))
        self._spread = [traits.uniform(0.006, 0.02) for _ in kernel]
        self._modes = [
            (traits.uniform(0.015, 0.04), traits.random()) if traits.random() < MODES else (0.0, 0.0)
            for _ in kernel
        ]
        self._off = [rng.gauss(0, wander) for _ in kernel]
        self._seen = [0] * len(kernel)
        self._phase, self._period = rng.uniform(0, 2 * math.pi), rng.uniform(300, 5000)

    def seconds(self, run: Callable[[], object], before: Callable[[], object] | None = None) -> float:
        index, rng = run(), self.rng
        assert isinstance(index, int)
        self.taken += 1
        slower, often = self._modes[index]
        time = self.kernel[index] * (1 + self._offset(index)) * (1 + rng.gauss(0, self._spread[index]))
        time *= 1 + slower * (rng.random() < often)
        time *= 1 + 0.01 * math.sin(self._phase + self.taken / self._period)
        time *= 1 + rng.expovariate(1 / DELAY) * (rng.random() < LATE)
        time *= COLD if self.taken <= COLD_START else 1
        return math.floor(time / TICK + rng.random()) * TICK

    def _offset(self, index: int) -> float:
        """The candidate's current offset, which decays with time."""
        memory = math.exp((self._seen[index] - self.taken) / 1000)
        self._seen[index] = self.taken
        self._off[index] = self._off[index] * memory + self.rng.gauss(
            0, self.wander * math.sqrt(1 - memory**2)
        )
        return self._off[index]

    def typical(self, index: int) -> float:
        """The candidate's mean in the long run."""
        slower, often = self._modes[index]
        return self.kernel[index] * (1 + slower * often)
