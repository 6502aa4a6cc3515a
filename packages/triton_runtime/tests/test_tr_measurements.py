"""Decides by times; records are portable, mergeable and validated."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packages.triton_runtime.tests.tuning import Clock, config, kernel

from triton_runtime.errors import TuningError
from triton_runtime.tune import (
    Entry,
    Measurements,
    MeasureOptions,
    TuningKey,
    config_key,
    decide,
    measure,
    measurements_of,
    middle_mean,
    neighbours,
    with_config,
    with_measurements,
)
from triton_runtime.tune.candidates import config_of
from wrapper_ir import ir
from wrapper_ir.artifact import bare_artifact
from wrapper_ir.builder import ProgramBuilder


class TestDecide:
    def test_the_fastest(self) -> None:
        decision = decide({"a": [3.0] * 5, "b": [1.0] * 5, "c": [2.0] * 5}, "abc")
        assert (decision.winner, decision.best, decision.tied, decision.inside_noise) == (
            "b",
            "b",
            ("b",),
            False,
        )

    def test_inside_noise_the_first_wins(self) -> None:
        times = {"a": [1.004] * 5, "b": [1.0] * 5, "c": [1.2] * 5}
        assert decide(times, "abc").winner == "a"
        assert decide(times, "cba").winner == "b"
        assert decide(times, "abc", noise=0.001).winner == "b"

    def test_noisy_times_decide_nothing(self) -> None:
        rng = random.Random(1)
        a, b = ([rng.gauss(mean, 0.3) for _ in range(20)] for mean in (1.05, 1.0))
        assert decide({"a": a, "b": b}, "ab").inside_noise
        many_a, many_b = ([rng.gauss(mean, 0.3) for _ in range(4000)] for mean in (1.05, 1.0))
        assert decide({"a": many_a, "b": many_b}, "ab").winner == "b"

    def test_outliers_do_not_count(self) -> None:
        a, b = [1.0] * 19 + [50.0], [1.1] * 20
        assert decide({"a": a, "b": b}, "ba").winner == "a"

    def test_one_outlier_of_three_does_not_count(self) -> None:
        assert middle_mean([9.0, 26.0, 9.5]) == 9.5
        assert decide({"a": [11.0] * 3, "b": [9.0, 9.0, 26.0]}, "ab").winner == "b"

    def test_who_was_dropped_early_cannot_win(self) -> None:
        assert decide({"a": [0.5, 3.0, 3.0], "b": [1.0] * 25}, "ab").winner == "b"

    def test_nothing_was_measured(self) -> None:
        with pytest.raises(ValueError, match="no candidate"):
            decide({"a": []}, "ab")


class TestMeasure:
    @staticmethod
    def run(clock: Clock, options: MeasureOptions) -> dict[str, list[float]]:
        runs = {str(key): (lambda key=key: clock.ran.append(key)) for key in clock.table}
        return measure(runs, clock, options)

    def test_rounds_are_interleaved_in_changing_order(self) -> None:
        clock = Clock(dict.fromkeys("abc", 1.0))
        times = self.run(clock, MeasureOptions(rounds=30, trial=3, most=30, warm_up=1))
        ran = "".join(map(str, clock.ran))
        assert ran[:3] == "abc"  # warming up
        rounds = [ran[i : i + 3] for i in range(3, len(ran), 3)]
        assert all(sorted(one) == ["a", "b", "c"] for one in rounds)
        # so each runs after each
        assert len(set(rounds)) == 6
        assert times == {key: [1.0] * 30 for key in "abc"}
        again = Clock(dict.fromkeys("abc", 1.0))
        self.run(again, MeasureOptions(rounds=30, trial=3, most=30, warm_up=1))
        assert again.ran == clock.ran

    def test_clear_losers_stop_early(self) -> None:
        clock = Clock({"a": 1.0, "b": 1.1, "c": 2.0})
        times = self.run(clock, MeasureOptions(rounds=10, trial=2, warm_up=0))
        assert {key: len(values) for key, values in times.items()} == {"a": 10, "b": 10, "c": 2}

    def test_a_sole_survivor_is_measured_to_the_end(self) -> None:
        """Otherwise it would have too few times to win beside those of another measurement."""
        times = self.run(Clock({"a": 1.0, "b": 2.0}), MeasureOptions(rounds=10, trial=2))
        assert {key: len(values) for key, values in times.items()} == {"a": 10, "b": 2}

    def test_a_late_launch_among_the_first_rounds(self) -> None:
        """The others have been dropped by then, and do not win because of it."""

        class Late(Clock):
            def seconds(self, run: Callable[[], object], before: Callable[[], object] | None = None) -> float:
                exact = super().seconds(run, before)
                return 26.0 if self.ran[-1] == "b" and self.ran.count("b") in (2, 3) else exact

        clock = Late({"a": 11.5, "b": 9.0, "c": 12.0})
        times = self.run(clock, MeasureOptions(warm_up=1))
        assert times["b"].count(26.0) == 2
        assert decide(times, "abc").winner == "b"

    def test_what_the_choice_hangs_on_is_measured_until_it_is_known(self) -> None:
        """Candidates that certainly lose, or follow a certain one, are left alone; at the limit the number of
        rounds is bounded.
        """

        def taken(table: Mapping[str, float], most: int = 4000) -> dict[str, int]:
            noise = random.Random(0)

            class Noisy(Clock):
                def seconds(
                    self, run: Callable[[], object], before: Callable[[], object] | None = None
                ) -> float:
                    return super().seconds(run, before) * (1 + 0.02 * noise.gauss())

            times = self.run(Noisy(table), MeasureOptions(most=most, seconds=60.0))
            return {key: len(values) for key, values in times.items()}

        near = taken({"a": 1.019, "b": 1.0, "c": 1.1})
        assert near["c"] == 25 < near["a"] == near["b"] < 4000
        clear = taken({"a": 1.06, "b": 1.0, "c": 1.1})
        assert max(clear.values()) < near["a"] / 2
        first = taken({"a": 1.0, "b": 1.015, "c": 1.1})
        assert max(first.values()) < near["a"]
        assert taken({"a": 1.015, "b": 1.0}, most=50) == {"a": 50, "b": 50}

    def test_time_is_limited(self) -> None:
        times = self.run(
            Clock({"a": 1.0, "b": 1.0}), MeasureOptions(rounds=5, most=100, precision=0, seconds=0)
        )
        assert {len(values) for values in times.values()} == {5}

    def test_options_that_mean_nothing(self) -> None:
        for bad in ({"rounds": 0}, {"trial": 0}, {"trial": 30}, {"loser": 0.9}, {"warm_up": -1}):
            with pytest.raises(ValueError, match="no measurement"):
                MeasureOptions(**bad)


_names = st.sampled_from(["a", "b", "c"])
_entries = st.builds(
    Entry,
    order=st.permutations(["a", "b", "c"]).map(tuple),
    times=st.dictionaries(
        _names, st.lists(st.integers(0, 10**9), max_size=4).map(lambda v: tuple(sorted(v)))
    ),
    failed=st.dictionaries(_names, st.text(max_size=5)),
)
_keys = st.builds(TuningKey, _names, _names, _names, st.lists(st.integers(0, 100), max_size=2).map(tuple))
_records = st.dictionaries(_keys, _entries, max_size=3).map(Measurements)


class TestRecords:
    @given(_records)
    def test_json(self, measurements: Measurements) -> None:
        assert Measurements.from_json(measurements.to_json()) == measurements

    @given(_records, _records, _records)
    def test_merging_is_the_same_in_any_order(
        self, a: Measurements, b: Measurements, c: Measurements
    ) -> None:
        merged = [x.merged(y).merged(z).to_json() for x, y, z in ((a, b, c), (c, a, b), (b, c, a))]
        times = [
            {
                (str(e["numbers"]), e["kernel"], key): v
                for e in json.loads(text)["entries"]
                for key, v in e["times"].items()
            }
            for text in merged
        ]
        assert times[0] == times[1] == times[2]
        assert a.merged(b) == b.merged(a)

    @pytest.mark.parametrize(
        "change",
        [
            lambda r: r.update(version=2),
            lambda r: r.pop("entries"),
            lambda r: r["entries"][0].pop("order"),
            lambda r: r["entries"][0].update(times={"z": [1]}),
            lambda r: r["entries"][0].update(times={"a": [1.5]}),
            lambda r: r["entries"][0].update(times={"a": [-1]}),
            lambda r: r["entries"][0].update(numbers=["8"]),
            lambda r: r["entries"][0].update(kernel=3),
        ],
    )
    def test_other_texts_are_refused(self, change: Callable[[Any], object]) -> None:
        entry = Entry(order=("a", "b"), times={"a": (5, 6)})
        document = json.loads(Measurements({TuningKey("k", "d", "c", (8,)): entry}).to_json())
        change(document)
        for text in (json.dumps(document), "{", "[]", ""):
            with pytest.raises(TuningError, match="TR601"):
                Measurements.from_json(text)

    def test_the_nearest_numbers(self) -> None:
        entries = [Entry(order=(str(n),), times={}) for n in (8, 1000)]
        measurements = Measurements(
            {TuningKey("k", "d", "c", (n,)): e for n, e in zip((8, 1000), entries, strict=True)}
        )
        assert measurements.find(TuningKey("k", "d", "c", (8,))) is entries[0]
        assert measurements.find(TuningKey("k", "d", "c", (80,))) is entries[0]
        assert measurements.find(TuningKey("k", "d", "c", (100,))) is entries[1]
        assert measurements.find(TuningKey("k", "d", "c", (0,))) is entries[0]
        for key in (
            TuningKey("k", "d", "c", ()),
            TuningKey("k", "e", "c", (8,)),
            TuningKey("j", "d", "c", (8,)),
        ):
            assert measurements.find(key) is None

    def test_in_an_artifact(self) -> None:
        builder = ProgramBuilder()
        builder.function("main").ret(())
        artifact = bare_artifact(builder.finish())
        measurements = Measurements({TuningKey("k", "d", "c", (8,)): Entry(order=("a",), times={"a": (5,)})})
        assert measurements_of(artifact) == Measurements()
        assert measurements_of(with_measurements(artifact, measurements)) == measurements


class TestCandidates:
    def test_neighbours_are_found_again_by_name(self) -> None:
        odd = ir.TritonConfig(
            meta=(
                ("XBLOCK", 1),
                ("EVEN", True),
                ("TYPE", ir.DType.F32),
                ("MODE", "a b"),
                ("NONE", None),
                ("R", 64),
            ),
            num_warps=1,
            num_stages=1,
            options=(("maxnreg", 32),),
        )
        owner = kernel(config(7), odd)
        configs = [*neighbours(odd)]
        assert [config_key(c).split()[0] for c in configs[:1]] == ["XBLOCK=2"]
        assert (
            len({config_key(c) for c in configs}) == len(configs) == 5
        )  # XBLOCK x2, R x2 /2, two warps, two stages
        assert all(config_of(owner, config_key(c)) == c for c in (*configs, *owner.configs))
        assert config_of(owner, "YBLOCK=3 warps=1 stages=1") is None
        assert with_config(owner, odd).configs == (odd,)
