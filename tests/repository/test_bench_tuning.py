"""The benchmark of tuning, without a device: its launches, and that it separates good choices from bad ones."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from inductor_frontend import CaptureOptions, capture
from py_wrapper import TORCH_MACHINE
from wrapper_ir import ir

pytest.importorskip("triton", reason="the tuner is triton_runtime's")

from packages.triton_runtime.tests.tuning import ARGS, BLOCKS, Lab, kernel

from tools.bench.bench_tuning import Job, examined, jobs, widened
from tools.bench.tuning_page import Row, all_times, missed, report, verdict
from triton_runtime.tune import Entry, MeasureOptions, config_key

QUICK = MeasureOptions(rounds=9, trial=9)


def norm(x: Tensor) -> Tensor:
    return torch.relu((x - x.mean(-1, keepdim=True)) / x.std(-1, keepdim=True)).mT + 1


def test_launches_of_a_program_with_their_arguments() -> None:
    program = capture(norm, (torch.randn(6, 40),), options=CaptureOptions(cpu_kernels="triton")).program
    seen: set[object] = set()
    found = [*jobs("norm", program, TORCH_MACHINE, seen)]
    assert len(found) == len(seen) == len(program.kernels)
    for job in found:
        listed = program.kernel(job.kernel.name)
        assert isinstance(listed, ir.TritonKernel)
        assert job.kernel.configs[: len(listed.configs)] == listed.configs
        assert len({config_key(c) for c in job.kernel.configs}) == len(job.kernel.configs) > 1
        assert len(job.args) == len(job.kernel.params) + len(job.kernel.grid_params)
    assert [*jobs("norm", program, TORCH_MACHINE, seen)] == []


def test_cooperative_kernels_keep_their_configs() -> None:
    owner = replace(kernel(BLOCKS[0]), cooperative=True)
    assert widened(owner) is owner


def test_a_good_tuner_is_within_the_goal() -> None:
    lab = Lab({64: 3.0, 128: 1.0, 256: 2.0})
    row = examined(Job("m", kernel(*BLOCKS), ARGS), lab.load_each, lab.clock, QUICK)
    assert row.chosen == (BLOCKS[1], BLOCKS[1])
    assert (row.best, row.loss, row.steady) == (config_key(BLOCKS[1]), 0.0, True)
    assert row.means == {config_key(c): s for c, s in zip(BLOCKS, (3.0, 1.0, 2.0), strict=True)}


def test_configs_that_do_not_compile_are_left_out() -> None:
    from triton_runtime import CompileError

    lab = Lab({128: 1.0, 256: 2.0}, {64: CompileError("TR201", "no")})
    row = examined(Job("m", kernel(*BLOCKS), ARGS), lab.load_each, lab.clock, QUICK)
    assert [*row.means] == [config_key(c) for c in BLOCKS[1:]]


def test_noise_is_borne() -> None:
    """Times vary by 3 %: twenty kernels whose configs are 0 to 30 % apart are chosen as the goal requires."""
    rows = []
    for seed in range(20):
        rng = random.Random(seed)
        lab = Lab({64: 1.0, 128: 1.0 + rng.choice((0.0, 0.05, 0.3)), 256: 1.0 + rng.choice((0.0, 0.1))})

        def seconds(
            run: Callable[[], object],
            before: Callable[[], object] | None = None,
            lab: Lab = lab,
            rng: random.Random = rng,
        ) -> float:
            run()
            return lab.clock.table[lab.clock.ran[-1]] * rng.gauss(1, 0.03)

        lab.clock.seconds = seconds  # type: ignore[method-assign]  # a noisy clock
        rows.append(
            examined(Job("m", kernel(*BLOCKS), ARGS), lab.load_each, lab.clock, MeasureOptions(rounds=80))
        )
    near, same = verdict(rows)
    assert near >= 19
    assert same >= 19


def a_row(chosen: tuple[ir.TritonConfig, ir.TritonConfig], seconds: Mapping[ir.TritonConfig, float]) -> Row:
    times = {config_key(c): [s] * 3 for c, s in seconds.items()}
    run = Entry.of_seconds([*times], times, {})
    return Row("m", kernel(*seconds), chosen, (run, run), times)


def unpadded(text: str) -> str:
    """Tables without the spaces that line their columns up."""
    return re.sub(" +", " ", text)


def test_bad_choices_are_told() -> None:
    seconds = {BLOCKS[0]: 1.03e-5, BLOCKS[1]: 1e-5}
    bad = a_row((BLOCKS[0], BLOCKS[1]), seconds)
    good = a_row((BLOCKS[1], BLOCKS[1]), seconds)
    assert verdict([bad, good, good]) == (2, 2)
    text = unpadded(report([bad, good], "a machine", 3.0, 1000))
    assert "Within 2% of the best of 1000 rounds: 1 of 2. The same in two runs: 1 of 2." in text
    assert "| XBLOCK=64 warps=4 stages=1 | 3.00 | XBLOCK=128 warps=4 stages=1 |" in text


def test_a_miss_is_shown_with_all_times() -> None:
    seconds = {BLOCKS[0]: 1.03e-5, BLOCKS[1]: 1e-5}
    bad, good = (a_row((BLOCKS[i], BLOCKS[1]), seconds) for i in range(2))
    text = missed([good, bad])
    assert unpadded(text).splitlines()[-2:] == [
        "| XBLOCK=64 warps=4 stages=1 (1) | 10.300 | 3 | 10.300 | 3 | 10.300 | 3.00 |",
        "| XBLOCK=128 warps=4 stages=1 (2) | 10.000 | 3 | 10.000 | 3 | 10.000 | 0.00 |",
    ]
    assert text in report([good, bad], "a machine", 3.0, 1000)
    assert "miss a goal" not in report([good], "a machine", 3.0, 1000)
    [first, second] = json.loads(all_times([good, bad]))
    assert second["chosen"] == ["XBLOCK=64 warps=4 stages=1", "XBLOCK=128 warps=4 stages=1"]
    assert first["exhaustive"]["XBLOCK=64 warps=4 stages=1"] == [10300] * 3


def test_the_page_fits_wide_configs() -> None:
    row = a_row((BLOCKS[0], BLOCKS[0]), dict.fromkeys(BLOCKS, 1.0))
    long = replace(row, kernel=replace(row.kernel, name="triton_" + "x" * 100))
    assert "x" * 50 not in report([long], "a machine", 1.0, 1000)
