"""The tuner: measurements, reproducible and shared choices, and preserved arguments."""

from __future__ import annotations

import random
import subprocess
import sys
import time
import types
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from packages.triton_runtime.tests.tuning import ARGS, BLOCKS, HERE, Lab, Shelf, kernel
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from triton_runtime.errors import CompileError, TuningError
from triton_runtime.tune import (
    HostTimer,
    Measurements,
    StreamTimer,
    TimingCache,
    TuneOptions,
    Tuner,
    config_key,
    timer_for,
)
from triton_runtime.tune.arguments import Preserved
from wrapper_ir import ir
from wrapper_ir.plugins.protocols import LoadedKernel
from wrapper_ir_tools.testing.catalogue import TRITON


def pointer(name: str, access: ir.Access) -> ir.KernelParam:
    return ir.KernelParam(name=name, kind=ir.ParamKind.POINTER, dtype=ir.DType.F32, access=access)


class TestPreserved:
    PARAMS = (
        pointer("x", ir.Access.READ),
        pointer("y", ir.Access.READWRITE),
        pointer("out", ir.Access.WRITE),
    )

    def preserved(self, args: Sequence[Tensor], budget: int = 1 << 20, **options: Any) -> Preserved:
        return Preserved(self.PARAMS, args, budget, **options)

    def test_only_what_is_read_and_written_is_copied(self) -> None:
        x, y, out = torch.ones(4), torch.ones(4), torch.ones(4)
        with self.preserved((x, y, out)) as context:
            assert context.nbytes == 16
            y += 1
            out += 1
            context.ready()
            assert y.tolist() == [1.0] * 4
            y += 5
        assert y.tolist() == [1.0] * 4
        # a launch overwrites it
        assert out.tolist() == [2.0] * 4

    def test_views_of_one_storage_are_copied_once_and_whole(self) -> None:
        base = torch.arange(8.0)
        with self.preserved((base[:2], base[2:4], base[6:])) as context:
            assert context.nbytes == 32
            base.zero_()
        assert base.tolist() == [*range(8)]

    def test_what_is_written_where_others_read_is_kept(self) -> None:
        x = torch.ones(4)
        with self.preserved((x, torch.ones(4), x)):
            x += 1
        assert x.tolist() == [1.0] * 4

    def test_restore_and_reset_as_the_kernel_says(self) -> None:
        out = torch.ones(4)
        with self.preserved((torch.ones(4), torch.ones(4), out), restore=("out",)) as context:
            out += 1
            context.ready()
            assert out.tolist() == [1.0] * 4
        with self.preserved((torch.ones(4), torch.ones(4), out), reset=("out",)) as context:
            context.ready()
            assert out.tolist() == [0.0] * 4

    def test_without_room_copies_go_to_the_host(self) -> None:
        y = torch.ones(4)
        with self.preserved((torch.ones(4), y, torch.ones(4)), budget=8):
            y += 1
        assert y.tolist() == [1.0] * 4

    def test_after_a_failure_too(self) -> None:
        y = torch.ones(4)
        with pytest.raises(RuntimeError), self.preserved((torch.ones(4), y, torch.ones(4))):
            y.add_(1).view(3)
        assert y.tolist() == [1.0] * 4


class TestTuner:
    def test_the_fastest_config(self) -> None:
        lab = Lab({64: 3.0, 128: 1.0, 256: 2.0})
        tuner = lab.tuner()
        assert tuner.choose(kernel(*BLOCKS), ARGS) == BLOCKS[1]
        measured = lab.clock.measured
        assert tuner.choose(kernel(*BLOCKS), ARGS) == BLOCKS[1]
        assert lab.clock.measured == measured
        [entry] = tuner.timings.measurements.entries.values()
        assert {key: len(values) > 0 for key, values in entry.times.items()} == {
            config_key(c): True for c in BLOCKS
        }

    def test_a_pair_in_place_is_restored_before_each_run(self) -> None:
        """A kernel may overwrite through one parameter what it reads through another.

        Each run, and the launch, must start from the first one's inputs.
        """
        shared, inputs = torch.ones(8), list[float]()

        class InPlace(Lab):
            def load(self, kernel: ir.TritonKernel) -> LoadedKernel | Exception:
                plain = super().load(kernel)
                assert not isinstance(plain, Exception)

                def run(x: Tensor, out: Tensor, *numbers: int) -> None:
                    inputs.append(x[0].item())
                    plain(x + 1, out, *numbers)

                return run

        lab = InPlace({64: 3.0, 128: 1.0, 256: 2.0})
        assert lab.tuner().choose(kernel(*BLOCKS), (shared, shared, 8, 1)) == BLOCKS[1]
        assert len(inputs) > len(BLOCKS)
        assert set(inputs) == {1.0}
        assert shared.tolist() == [1.0] * 8

    def test_one_config_is_not_measured(self) -> None:
        lab = Lab({})
        assert lab.tuner().choose(kernel(BLOCKS[0]), ARGS) == BLOCKS[0]
        assert not lab.loaded

    def test_stored_times_are_used_by_the_next_process(self) -> None:
        shelf = Shelf()
        Lab({64: 3.0, 128: 1.0, 256: 2.0}).tuner(store=shelf).choose(kernel(*BLOCKS), ARGS)
        again = Lab({})
        assert again.tuner(store=shelf).choose(kernel(*BLOCKS), ARGS) == BLOCKS[1]
        assert not again.loaded
        other = Lab({64: 1.0, 128: 2.0, 256: 2.0})
        assert other.tuner(store=shelf).choose(kernel(*BLOCKS), (*ARGS[:2], 16, 1)) == BLOCKS[0]

    def test_a_poisoned_record_is_measured_again(self) -> None:
        shelf = Shelf()
        Lab({64: 3.0, 128: 1.0, 256: 2.0}).tuner(store=shelf).choose(kernel(*BLOCKS), ARGS)
        shelf.update(dict.fromkeys(shelf, b"\xff{"))
        lab = Lab({64: 1.0, 128: 3.0, 256: 2.0})
        assert lab.tuner(store=shelf).choose(kernel(*BLOCKS), ARGS) == BLOCKS[0]
        assert Measurements.from_json(next(iter(shelf.values())).decode()).entries

    def test_replay_measures_nothing(self) -> None:
        tuner = Lab({64: 3.0, 128: 1.0, 256: 2.0}).tuner()
        tuner.choose(kernel(*BLOCKS), ARGS)
        measurements = Measurements.from_json(tuner.timings.measurements.to_json())
        lab = Lab({})
        replayed = lab.tuner(measurements=measurements)
        assert replayed.replay(kernel(*BLOCKS), ARGS) == BLOCKS[1]
        assert replayed.replay(kernel(*BLOCKS), (*ARGS[:2], 12, 1)) == BLOCKS[1]
        assert replayed.replay(kernel(*reversed(BLOCKS)), ARGS) == BLOCKS[2]  # another kernel
        assert not lab.loaded

    def test_who_fails_is_no_candidate(self) -> None:
        broken = {64: CompileError("TR201", "no"), 128: RuntimeError("out of resources: shared memory")}
        lab = Lab({256: 2.0}, broken)
        tuner = lab.tuner()
        assert tuner.choose(kernel(*BLOCKS), ARGS) == BLOCKS[2]
        [entry] = tuner.timings.measurements.entries.values()
        assert list(entry.failed) == [config_key(c) for c in BLOCKS[:2]]
        assert "shared memory" in entry.failed[config_key(BLOCKS[1])]

    def test_nobody_is_left(self) -> None:
        lab = Lab({}, {64: CompileError("TR201", "too big"), 128: RuntimeError("out of memory")})
        with pytest.raises(TuningError, match=r"(?s)TR602.*XBLOCK=64.*too big.*XBLOCK=128.*out of memory"):
            lab.tuner().choose(kernel(*BLOCKS[:2]), ARGS)
        # the next call works
        assert lab.tuner().choose(kernel(BLOCKS[0]), ARGS) == BLOCKS[0]

    def test_descent(self) -> None:
        seconds = {8: 9.0, 16: 8.0, 32: 6.0, 64: 5.0, 128: 4.0, 256: 3.0, 512: 2.0, 1024: 1.0, 2048: 4.0}
        owner = kernel(BLOCKS[0], derive=(ir.Derivation.COORDINATE_DESCENT,))
        tuner = Lab(seconds).tuner(options=TuneOptions(descent=True))
        config = tuner.choose(owner, ARGS)
        assert dict(config.meta) == {"XBLOCK": 1024}
        assert Lab(seconds).tuner().choose(owner, ARGS) == BLOCKS[0]
        assert Lab({}).tuner(measurements=tuner.timings.measurements).replay(owner, ARGS) == config

    def test_descent_from_configs_that_were_measured_long(self) -> None:
        """The listed ones differ by the limit of noise, so they are measured in many rounds, unlike their
        neighbours.
        """
        lab = Lab({32: 3.0, 64: 1.0151, 128: 1.0, 256: 0.5, 512: 2.0})
        owner = kernel(*BLOCKS[:2], derive=(ir.Derivation.COORDINATE_DESCENT,))
        tuner = lab.tuner(options=TuneOptions(descent=True))
        assert tuner.choose(owner, ARGS) == BLOCKS[2]
        [entry] = tuner.timings.measurements.entries.values()
        counts = {key: len(entry.times[key]) for key in map(config_key, BLOCKS)}
        assert counts[config_key(BLOCKS[0])] > 2 * counts[config_key(BLOCKS[2])]

    def test_arguments_survive(self) -> None:
        params = (pointer("x", ir.Access.READWRITE), *TRITON.params[1:])
        x = torch.ones(8)

        def load_each(kernels: Sequence[ir.TritonKernel]) -> list[LoadedKernel | Exception]:
            return [lambda x, *rest: x.add_(1) for _ in kernels]

        Tuner(load_each, HostTimer(ir.Device("cpu")), TimingCache(HERE)).choose(
            kernel(*BLOCKS, params=params), (x, *ARGS[1:])
        )
        assert x.tolist() == [1.0] * 8

    def test_two_runs_agree_inside_noise(self) -> None:
        choices = set()
        for seed in range(8):
            rng = random.Random(seed)
            lab = Lab({64: 1.0, 128: 1.0, 256: 1.3})

            def seconds(
                run: Callable[[], object], before: Any = None, lab: Lab = lab, rng: random.Random = rng
            ) -> float:
                run()
                return lab.clock.table[lab.clock.ran[-1]] * rng.gauss(1, 0.003)

            lab.clock.seconds = seconds  # type: ignore[method-assign]  # a noisy clock
            choices.add(lab.tuner().choose(kernel(*BLOCKS), ARGS))
        assert choices == {BLOCKS[0]}


def test_timers() -> None:
    assert isinstance(timer_for(ir.Device("cpu")), HostTimer)
    assert isinstance(timer_for(ir.Device("cuda", 0)), StreamTimer)
    assert isinstance(timer_for(ir.Device("npu", 0)), HostTimer)


def test_the_host_is_timed_while_it_runs() -> None:
    ran: list[str] = []

    def run() -> None:
        ran.append("run")
        time.sleep(0.01)

    def before() -> None:
        ran.append("before")
        time.sleep(1.0)

    assert 0.01 <= HostTimer(ir.Device("cpu")).seconds(run, before) < 1.0
    assert ran == ["before", "run"]


class FakeDevice:
    """A fake device with a cache that records its events and writes."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.Event = lambda enable_timing: FakeEvent(self.log)

    def get_device_properties(self, index: int) -> object:
        return types.SimpleNamespace(L2_cache_size=3 << 20)

    def synchronize(self, index: int) -> None:
        self.log.append("wait")


class FakeEvent:
    def __init__(self, log: list[str]) -> None:
        self.log = log

    def record(self) -> None:
        self.log.append("event")

    def synchronize(self) -> None:
        pass

    def elapsed_time(self, end: FakeEvent) -> float:
        return 2.5


class Writes(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch leaves it so
    """Records the tensors that are zeroed."""

    def __init__(self, log: list[str]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # as above
        self.log = log

    def __torch_dispatch__(
        self, func: Any, kinds: Any, args: Any = (), kwargs: Any = None
    ) -> Any:  # Any: torch's
        if func is torch.ops.aten.zero_.default:
            self.log.append(f"zero {args[0].nbytes >> 20} MiB")
        return func(*args, **(kwargs or {}))


def test_a_device_is_timed_from_cold_caches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the run is between the two events; before the first, twice the cache is overwritten.

    An idle device is woken between two runs. Restoring arguments, however long, is not idle time.
    """
    device = FakeDevice()
    monkeypatch.setattr(torch, "get_device_module", lambda kind: device)
    timer = StreamTimer(ir.Device("cpu"))

    def restore() -> None:
        device.log.append("before")
        time.sleep(0.1)

    for woken in (True, False):
        device.log.clear()
        with Writes(device.log):
            seconds = timer.seconds(lambda: device.log.append("run"), restore)
        assert seconds == 0.0025
        assert device.log[-5:] == ["before", "zero 6 MiB", "event", "run", "event"]
        assert ("wait" in device.log) is woken
        assert woken or len(device.log) == 5


RANK = """
import sys, torch.distributed as dist
from packages.triton_runtime.tests.choose_bench import Bench, args
from packages.triton_runtime.tests.tuning import ARGS, BLOCKS, Lab, kernel
from triton_runtime.tune import config_key, gather_over
rank = int(sys.argv[1])
dist.init_process_group("gloo", init_method=f"file://{sys.argv[2]}", rank=rank, world_size=4)
# Alone, ranks would find different ones the fastest.
seconds = {64: 1.0 + (rank == 0), 128: 1.1 + (rank == 1), 256: 1.1 + 0.01 * rank}
tuner = Lab(seconds).tuner(gather=gather_over())
print(config_key(tuner.choose(kernel(*BLOCKS), ARGS)))
of_kernels = Bench(looped=1.0 + (rank == 0), persistent=1.1 + (rank == 1), split=1.1 + 0.01 * rank)
multi = of_kernels.launch(gather=gather_over())
multi(*args())
print(multi.chosen)
dist.destroy_process_group()
"""


@pytest.mark.slow
def test_processes_agree(tmp_path: Path) -> None:
    """On a config and on one of several kernels."""
    root = Path(__file__).parents[3]
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", RANK, str(rank), str(tmp_path / "store")],
            cwd=root,
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(4)
    ]
    try:
        choices = [rank.communicate(timeout=120)[0].strip() for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
            rank.wait()
    assert [rank.returncode for rank in ranks] == [0] * 4
    assert len(set(choices)) == 1
    config, multi = choices[0].split("\n")
    assert config in {config_key(c) for c in BLOCKS}
    assert multi in {"0", "1", "2"}
