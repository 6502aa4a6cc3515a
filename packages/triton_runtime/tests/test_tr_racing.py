"""Choices on a device with noisy times: good, and equal in two runs."""

from __future__ import annotations

import random
from dataclasses import dataclass

from packages.triton_runtime.tests.simulated import Unsteady, some_kernel

from triton_runtime.tune import MeasureOptions, decide, measure
from triton_runtime.tune.racing import contenders

KERNELS = 100


@dataclass(frozen=True)
class Result:
    """Fractions of kernels, and the mean number of timed runs for one."""

    near: float
    same: float
    timed_runs: float


def result(options: MeasureOptions, wander: float, noise: float = 0.015) -> Result:
    near = same = timed_runs = 0
    for seed in range(KERNELS):
        rng = random.Random(seed)
        kernel, choices = some_kernel(rng), []
        for _ in range(2):
            device = Unsteady(kernel, rng, wander)
            runs = {str(i): (lambda i=i: i) for i in range(len(kernel))}
            times = measure(runs, device, options, noise=noise)
            choices.append(int(decide(times, [*runs], noise=noise).winner))
            timed_runs += device.taken
        typical = [*map(device.typical, range(len(kernel)))]
        near += typical[choices[0]] <= 1.02 * min(typical)
        same += choices[0] == choices[1]
    return Result(near / KERNELS, same / KERNELS, timed_runs / KERNELS / 2)


NO_LIMIT = 600.0
"""Seconds: simulated devices respond at once, so that rounds are the limit."""


def test_two_runs_choose_the_same_and_well() -> None:
    outcome = result(MeasureOptions(seconds=NO_LIMIT), wander=0.001)
    assert outcome.near >= 0.99
    assert outcome.same >= 0.95
    # 0.2 s on a GPU
    assert outcome.timed_runs < 2000
    few = result(MeasureOptions(most=25), wander=0.001)
    assert few.same < outcome.same


def test_what_the_whole_run_is_off_by_is_borne() -> None:
    """If each candidate's times wander by 0.3 %, equal ones cannot be made equal in every run."""
    outcome = result(MeasureOptions(seconds=NO_LIMIT), wander=0.003)
    assert outcome.near >= 0.98
    assert outcome.same >= 0.9


class TestContenders:
    @staticmethod
    def steady(**seconds: float) -> list[str]:
        """The contenders after 400 rounds without any variation."""
        return contenders({key: [s] * 400 for key, s in seconds.items()}, 0.015, 0.0)

    def test_a_certain_choice_has_no_contenders(self) -> None:
        assert self.steady(a=1.1, b=1.0, c=1.0) == []
        assert self.steady(a=1.005, b=1.0) == []
        assert self.steady(a=1.0) == []

    def test_candidates_near_the_limit_are_contenders(self) -> None:
        assert self.steady(a=1.1, b=1.015, c=1.005, d=1.0, e=1.2) == ["b", "c", "d"]
        # drifts affect all alike
        assert self.steady(a=1.015, b=1.0, c=1.03) == ["a", "b", "c"]

    def test_candidates_after_a_certain_choice_do_not_matter(self) -> None:
        assert self.steady(a=1.005, b=1.015, c=1.0) == []
        assert self.steady(a=1.0, b=1.015, c=1.0) == []

    def test_precision_ends_the_race(self) -> None:
        times = {"a": [1.015] * 400, "b": [1.0] * 400}
        assert contenders(times, 0.015, 0.001) == ["a", "b"]
        assert contenders(times, 0.015, 0.002) == []
