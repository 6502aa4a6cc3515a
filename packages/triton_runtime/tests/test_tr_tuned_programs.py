"""Programs whose kernels are tuned and chosen at their first launch, in Triton's interpreter."""

from __future__ import annotations

import csv
import dataclasses
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from triton_runtime.choose import ChoiceOptions, Pick
from triton_runtime.errors import TuningError
from triton_runtime.options import TritonOptions
from triton_runtime.runtime import TritonRuntime
from triton_runtime.settings import read_settings
from triton_runtime.tune import MeasureOptions, TunedLaunch, TuneOptions
from wrapper_ir import ir
from wrapper_ir_tools.testing.catalogue import TRITON

QUICK = MeasureOptions(rounds=2, trial=2)


def runtime(folder: Path, **options: object) -> TritonRuntime:
    settings = read_settings({"WRAPPER_IR_CACHE_DIR": str(folder)})
    return TritonRuntime(options=TritonOptions(**options), settings=settings)  # type: ignore[arg-type]  # any options


def check(kernel: object) -> None:
    assert callable(kernel)
    x, out = torch.linspace(-2, 2, 200), torch.empty(200)
    kernel(x, out, 200, 1)
    torch.testing.assert_close(out, x.relu())


def test_configs_are_tuned_at_the_first_launch(tmp_path: Path) -> None:
    configs: list[ir.TritonConfig | None] = []
    # the second finds the times in the store
    for _ in range(2):
        one = runtime(tmp_path, tune=TuneOptions(measure=QUICK))
        tuned = one.load(TRITON, ir.Target())
        assert isinstance(tuned, TunedLaunch)
        assert tuned.config is None
        check(tuned)
        configs.append(tuned.config)
    assert configs[0] == configs[1]
    assert configs[0] in TRITON.configs


class Told:
    """A timer with fixed seconds for each candidate, in the order of their first runs."""

    def __init__(self, *seconds: float) -> None:
        self.seconds_of: dict[int, float] = {}
        self.left = [*seconds]

    def seconds(self, run: Callable[[], object], before: Callable[[], object] | None = None) -> float:
        if before is not None:
            before()
        run()
        if id(run) not in self.seconds_of:
            self.seconds_of[id(run)] = self.left.pop(0)
        return self.seconds_of[id(run)]


def test_a_given_timer_measures_instead_of_the_devices(tmp_path: Path) -> None:
    for i, seconds in enumerate(((1.0, 2.0), (2.0, 1.0))):
        timer = Told(*seconds)
        one = runtime(tmp_path / f"configs {i}", tune=TuneOptions(measure=QUICK), timer=timer)
        tuned = one.load(TRITON, ir.Target())
        check(tuned)
        assert not timer.left
        [entry] = one.measurements.entries.values()
        assert sorted({t for times in entry.times.values() for t in times}) == [10**9, 2 * 10**9]
        multi, kernels = variants()
        picks: list[Pick] = []
        choice = ChoiceOptions(rounds=QUICK, picked=picks.append)
        another = runtime(tmp_path / f"kernels {i}", choice=choice, timer=Told(*seconds))
        check(another.load_all([*kernels, multi], ir.Target())["relu"])
        assert sorted(m for m in picks[0].means if m is not None) == [1.0, 2.0]
        assert picks[0].means[picks[0].index] == 1.0


def test_without_tuning_the_first_config_is_taken(tmp_path: Path) -> None:
    loaded = runtime(tmp_path).load(TRITON, ir.Target())
    assert not isinstance(loaded, TunedLaunch)
    check(loaded)


def variants(*broken: int) -> tuple[ir.MultiKernel, list[ir.TritonKernel]]:
    """Kernels with other block sizes; those in `broken` do not load."""
    kernels = []
    for i, config in enumerate(TRITON.configs):
        source = TRITON.source.replace("x < xnumel)", "x < nothing)") if i in broken else TRITON.source
        kernels.append(dataclasses.replace(TRITON, name=f"relu_{i}", configs=(config,), source=source))
    multi = ir.MultiKernel(
        name="relu",
        params=TRITON.params,
        variants=tuple(ir.Variant(kernel=k.name, args=(0, 1, 2), grid=(0,)) for k in kernels),
        grid_params=("copies",),
    )
    return multi, kernels


def test_multi_kernels_choose_once(tmp_path: Path) -> None:
    multi, kernels = variants()
    picks: list[Pick] = []
    for _ in range(2):
        options = ChoiceOptions(rounds=QUICK, picked=picks.append)
        loaded = runtime(tmp_path, choice=options).load_all([*kernels, multi], ir.Target())
        check(loaded["relu"])
    assert [pick.why for pick in picks] == ["measured", "stored"]
    assert picks[0].index == picks[1].index


def test_the_environment_names_a_table_of_choices(tmp_path: Path) -> None:
    multi, kernels = variants()
    table = tmp_path / "choices.csv"
    env = {"WRAPPER_IR_CACHE_DIR": str(tmp_path), "WRAPPER_IR_TRITON_METRICS": str(table)}
    one = TritonRuntime(
        options=TritonOptions(choice=ChoiceOptions(rounds=QUICK)), settings=read_settings(env)
    )
    check(one.load_all([*kernels, multi], ir.Target())["relu"])
    with table.open() as file:
        rows = [*csv.DictReader(file)]
    assert [row["kernel"] for row in rows] == ["relu_0", "relu_1"]
    for row, kernel in zip(rows, kernels, strict=True):
        assert Path(row["path"]).read_text() == kernel.source
        assert float(row["latency_us"]) > 0
    assert sorted(row["chosen"] for row in rows) == ["0", "1"]


def test_a_kernel_that_fails_is_not_chosen(tmp_path: Path) -> None:
    multi, kernels = variants(0)
    loaded = runtime(tmp_path, choice=ChoiceOptions(rounds=QUICK)).load_all([*kernels, multi], ir.Target())
    check(loaded["relu"])
    multi, kernels = variants(0, 1)
    loaded = runtime(tmp_path, choice=ChoiceOptions(rounds=QUICK)).load_all([*kernels, multi], ir.Target())
    with pytest.raises(TuningError, match=r"(?s)TR602.*relu_0.*relu_1"):
        check(loaded["relu"])
