"""Multi-kernels: the choice of one kernel, its storage and validation, and the arguments of each kernel."""

from __future__ import annotations

import dataclasses
import logging
from pathlib import Path
from typing import Any

import pytest
from packages.triton_runtime.tests.choose_bench import KERNELS, MULTI, SPLIT, Bench, args
from packages.triton_runtime.tests.tuning import HERE, Shelf, config

from triton_runtime.choose import MetricsTable, MultiLaunch, Pick, nearest
from triton_runtime.choose.metrics import COLUMNS
from triton_runtime.errors import TuningError
from triton_runtime.tune import Entry, Measurements, TimingCache
from wrapper_ir import ir


class TestMeasured:
    def test_the_fastest_once(self) -> None:
        bench = Bench(looped=3.0, persistent=1.0, split=2.0)
        multi = bench.launch()
        arguments = args()
        multi(*arguments)
        measured = bench.clock.measured
        multi(*arguments)
        assert (multi.chosen, bench.clock.measured) == (1, measured)
        assert bench.clock.ran[-1] == "persistent"

    def test_each_kernel_gets_its_own_slice(self) -> None:
        bench = Bench(looped=1.0, persistent=1.0, split=1.0)
        arguments = args()
        bench.launch()(*arguments)
        assert [bench.given[name][2:] for name in ("looped", "persistent")] == [(8, 10), (8,)]
        assert bench.given["split"][3] is arguments[3]
        assert bench.given["split"][4:] == (20,)

    def test_among_equals_the_first_wins(self) -> None:
        bench = Bench(looped=1.001, persistent=1.0, split=1.0)
        multi = bench.launch()
        multi(*args())
        assert multi.chosen == 0

    def test_who_fails_is_not_chosen(self) -> None:
        bench = Bench(looped=1.0, persistent=2.0, split=3.0)
        bench.broken["looped"] = RuntimeError("out of resources")
        multi = bench.launch()
        multi(*args())
        assert multi.chosen == 1
        bench.broken |= {name: RuntimeError("gone") for name in KERNELS}
        with pytest.raises(TuningError, match=r"(?s)TR602.*@multi.*looped: gone.*split: gone"):
            bench.launch()(*args())

    def test_picks_are_told_and_logged(self, caplog: pytest.LogCaptureFixture) -> None:
        picks: list[Pick] = []
        with caplog.at_level(logging.INFO, "triton_runtime"):
            Bench(looped=3.0, persistent=1.0, split=2.0).launch(picked=picks.append)(*args())
        assert picks == [
            Pick(
                kernel="multi",
                index=1,
                variant="persistent",
                why="measured",
                means=(3.0, 1.0, 2.0),
                names=("looped", "persistent", "split"),
            )
        ]
        assert (
            "@multi: @persistent (1), measured; means in us: [3000000.0, 1000000.0, 2000000.0]" in caplog.text
        )


class TestStored:
    def test_the_next_process_does_not_measure(self) -> None:
        shelf = Shelf()
        Bench(looped=3.0, persistent=1.0, split=2.0).launch(store=shelf)(*args())
        bench = Bench()
        picks: list[Pick] = []
        multi = bench.launch(store=shelf, picked=picks.append)
        multi(*args())
        assert (multi.chosen, bench.clock.measured, picks[0].why) == (1, 0, "stored")

    @pytest.mark.parametrize(
        ("old", "new"),
        [
            (b'["0", "1", "2"]', b'["0", "1", "2", "3"]'),  # a choice of more kernels
            (b'["0", "1", "2"]', b'["0", "1"]'),
            (b'"1": [', b'"7": ['),  # out of range
            (b'"version": 1', b'"version": 0'),
            (b"{", b""),
            (b"", b"\xff"),
        ],
    )
    def test_bad_entries_are_measured_again(self, old: bytes, new: bytes) -> None:
        shelf = Shelf()
        Bench(looped=3.0, persistent=1.0, split=2.0).launch(store=shelf)(*args())
        [(key, data)] = shelf.items()
        assert old in data
        shelf[key] = data.replace(old, new)
        multi = Bench(looped=1.0, persistent=3.0, split=2.0).launch(store=shelf)
        multi(*args())
        assert multi.chosen == 0
        assert Measurements.from_json(shelf[key].decode()).entries

    def test_switched_off(self) -> None:
        shelf = Shelf()
        Bench(looped=3.0, persistent=1.0, split=2.0).launch(store=shelf, stored=False)(*args())
        assert not shelf

    @pytest.mark.parametrize(
        "changes",
        [
            {"source": "evict_first"},
            {"configs": (config(128),)},
            {"options": (("maxnreg", 64),)},
            {"constants": (("mode", 1),)},
        ],
        ids=["source", "configs", "options", "constants"],
    )
    def test_other_kernels_are_another_entry(self, changes: dict[str, Any]) -> None:  # Any: any fields
        shelf = Shelf()
        bench = Bench(looped=3.0, persistent=1.0, split=2.0)
        for kernels in (KERNELS, {**KERNELS, "split": dataclasses.replace(SPLIT, **changes)}):
            loaded = {name: bench.load(name) for name in KERNELS}
            MultiLaunch(MULTI, kernels, loaded, bench.clock, TimingCache(HERE), shelf)(*args())
        assert len(shelf) == 2

    def test_other_choices_of_the_same_kernels_are_other_entries(self) -> None:
        """In another order, or for other sizes; a new name alone does not."""
        looped, persistent, split = MULTI.variants
        hinted = dataclasses.replace(looped, hints=((8,), (8,)))
        shelf = Shelf()
        for variants in (
            (looped, persistent, split),
            (persistent, looped, split),
            (hinted, persistent, split),
        ):
            for name in ("multi", "another"):
                kernel = dataclasses.replace(MULTI, name=name, variants=variants)
                Bench(looped=3.0, persistent=1.0, split=2.0).launch(kernel, store=shelf)(*args())
        assert len(shelf) == 3


class TestTogether:
    def test_processes_choose_the_same(self) -> None:
        """Alone, they would find different kernels the fastest."""
        texts: list[str] = []

        def keep(text: str) -> list[str]:
            texts.append(text)
            return [text]

        seconds = (
            {"looped": 3.0, "persistent": 1.0, "split": 2.0},
            {"looped": 1.0, "persistent": 9.0, "split": 2.0},
        )
        for times in seconds:
            Bench(**times).launch(gather=keep)(*args())
        choices = []
        for times in seconds:
            multi = Bench(**times).launch(gather=lambda text: texts)
            multi(*args())
            choices.append(multi.chosen)
        assert choices == [0, 0] or choices == [2, 2]

    def test_others_at_another_kernel_are_told(self) -> None:
        other = Measurements(
            {TimingCache(HERE).key("another"): Entry(order=("0",), times={"0": (1,)})}
        ).to_json()
        bench = Bench(looped=3.0, persistent=1.0, split=2.0)
        with pytest.raises(TuningError, match=r"TR603.*another"):
            bench.launch(gather=lambda text: [text, other])(*args())


class TestMetrics:
    def test_a_table_of_all_choices(self, tmp_path: Path) -> None:
        table = MetricsTable(tmp_path / "new" / "choices.csv")
        bench = Bench(looped=3.0, persistent=1.0, split=2.0)
        bench.launch(picked=table)(*args())
        bench.launch(picked=table, force=2)(*args())
        assert table.path.read_text().splitlines() == [
            ",".join(COLUMNS),
            "multi,looped,,3000000.000,0,measured",
            "multi,persistent,,1000000.000,1,measured",
            "multi,split,,2000000.000,0,measured",
            "multi,looped,,,0,forced",
            "multi,persistent,,,0,forced",
            "multi,split,,,1,forced",
        ]


class TestOptions:
    def test_off(self) -> None:
        bench = Bench()
        multi = bench.launch(measure=False)
        multi(*args())
        assert (multi.chosen, bench.clock.ran) == (0, ["looped"])

    def test_forced(self) -> None:
        bench = Bench()
        bench.launch(force=2)(*args())
        assert bench.clock.ran == ["split"]

    @pytest.mark.parametrize("force", [-1, 3])
    def test_forced_out_of_range(self, force: int) -> None:
        with pytest.raises(TuningError, match=r"(?s)TR604.*@multi.*0 to 2"):
            Bench().launch(force=force)


class TestSizes:
    def hinted(self, *hints: tuple[tuple[int | None, ...], ...]) -> ir.MultiKernel:
        variants = [dataclasses.replace(MULTI.variants[i % 2], hints=h) for i, h in enumerate(hints)]
        return dataclasses.replace(MULTI, variants=tuple(variants), choice=ir.Choice.SIZE_HINTS)

    def test_the_nearest_is_taken_and_nothing_measured(self) -> None:
        bench = Bench()
        multi = bench.launch(self.hinted(((8,), (8,)), ((1024,), (1024,))))
        choices = []
        for size in (8, 16, 500, 16):
            multi(*args(size))
            choices.append(multi.chosen)
        assert choices == [0, 0, 1, 0]
        assert bench.clock.measured == 0

    def test_choices_are_kept_by_sizes(self) -> None:
        picks: list[Pick] = []
        multi = Bench().launch(self.hinted(((8,), (8,)), ((1024,), (1024,))), picked=picks.append)
        for size in (8, 9, 8, 9):
            multi(*args(size))
        assert [pick.why for pick in picks] == ["sizes", "sizes"]

    @pytest.mark.parametrize(
        ("candidates", "want"),
        [
            ([([(8,)], [(8,)]), ([(9,)], [(8,)])], 0),
            ([([(4,)], [(8,)]), ([(16,)], [(8,)])], 0),  # equally far: the first
            ([([(None,)], [(8,)]), ([(4096,)], [(8,)])], 1),  # a missing hint comes last
            ([([(8, 8)], [(8,)]), ([(4096,)], [(8,)])], 1),  # so does another rank
            ([([(0,)], [(1,)]), ([(2,)], [(0,)])], 0),  # log2 of 0 is -1: 1 away, and 2
            ([([(None,)], [(8,)]), ([], [(8,)])], 0),
        ],
    )
    def test_nearest(self, candidates: Any, want: int) -> None:  # Any: nested lists of numbers
        assert nearest(candidates) == want


def test_arguments_are_as_they_were_but_for_what_is_written() -> None:
    bench = Bench(looped=1.0, persistent=2.0, split=3.0)
    arguments = args()
    bench.launch()(*arguments)
    assert arguments[0].tolist() == [1.0] * 8
    assert not arguments[3].any()
