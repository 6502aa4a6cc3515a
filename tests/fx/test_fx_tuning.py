"""Kernels tuned before a graph is built: both forms call the choice, and a file contains it."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import fx
from torch._higher_order_ops.triton_kernel_wrap import kernel_side_table

import fx_converter
import wrapper_ir
from fx_converter import FxOptions, KernelTuning
from fx_converter.errors import ConvertError
from fx_converter.kernels import KernelCalls
from tests.common.compare import assert_same
from tests.common.forms import both_forms
from wrapper_ir import ir
from wrapper_ir.artifact import Artifact, bare_artifact
from wrapper_ir.json.kernel_hash import content_hash
from wrapper_ir.plugins.protocols import LoadedKernel

pytest.importorskip("triton", reason="kernels are interpreted by triton")

from triton_runtime import TritonOptions, TritonRuntime
from triton_runtime.interp import InterpreterDriver
from triton_runtime.protocols import Launchable
from triton_runtime.settings import read_settings
from triton_runtime.tune import Entry, Measurements, TuningKey, config_key, with_measurements

SMALL, LARGE = 64, 256
PROGRAM = """wir 0.5
target cpu

symbol s0 : int backed [2, 100000] hint 4096
symbol u0 : int unbacked [0, 100000]
symbol u1 : int unbacked [0, 200000]

kernel triton @say entry "say" (write f32* out, i64 n)
  order(out, n, BLOCK)
  configs({BLOCK = 64} warps(4) stages(1), {BLOCK = 256} warps(4) stages(1))
  grid(ceildiv(n, BLOCK))
  {{{
import triton
import triton.language as tl

@triton.jit
def say(out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.full([BLOCK], BLOCK, tl.float32), mask=at < n)
}}}

"""
BACKED = """func @main(%x: f32[s0]) {
  define s0 = size(%x, 0)
  %out = alloc f32[s0]
  launch @say(%out, s0)
  return %out
}
"""
UNBACKED = """func @main(%count: i64[]) {
  define u0 = item(%count)
  define u1 = 2*u0
  %out = alloc f32[u1]
  launch @say(%out, u1)
  return %out
}
"""


def artifact(main: str = BACKED, target: str = "target cpu") -> Artifact:
    program = wrapper_ir.parse_program(PROGRAM.replace("target cpu", target) + main)
    wrapper_ir.verify(program)
    return bare_artifact(program)


class Bench:
    """A simulated device and its clock: a launch takes a time for each block, and one for each element of a
    block.

    Small launches are faster with small blocks, large ones with large blocks. Triton's interpreter computes.
    """

    def __init__(self, folder: Path) -> None:
        self._driver = InterpreterDriver(folder=folder / "sources")
        self._took = 0.0
        self.launches = 0
        self.needs_binary = False
        self.name = "bench"

    def load(self, launchable: Launchable, device: ir.Device) -> LoadedKernel:
        run = self._driver.load(launchable, device)
        block = dict(launchable.config.meta)["BLOCK"]
        assert isinstance(block, int)

        def launch(*args: Any) -> None:  # Any: tensors and numbers
            run(*args)
            self.launches += 1
            self._took = 1e-3 * launchable.grid(*args)[0] + 1e-6 * block

        return launch

    def seconds(self, run: Callable[[], object], before: Callable[[], object] | None = None) -> float:
        run()
        return self._took


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def options(bench: Bench, folder: Path, form: KernelCalls, tune: KernelTuning | None) -> FxOptions:
    runtime = TritonRuntime(
        options=TritonOptions(driver=bench, timer=bench),
        settings=read_settings({"WRAPPER_IR_CACHE_DIR": str(folder)}),
    )
    return FxOptions(kernel_calls=form, tune=tune, find_runtime=lambda kind: runtime)


def blocks(module: fx.GraphModule, *inputs: Any) -> set[float]:
    """The blocks that a call launches."""
    (out,) = module(*inputs)
    return set(out.tolist())


@both_forms
def test_what_is_measured_is_called(form: KernelCalls, bench: Bench, tmp_path: Path) -> None:
    """At the hint the second config is faster, at another hint the first one."""
    x = torch.ones(300)
    untuned = fx_converter.convert(artifact(), options(bench, tmp_path, form, None))
    assert blocks(untuned, x) == {SMALL}
    assert bench.launches == 1
    tuned = fx_converter.convert(artifact(), options(bench, tmp_path, form, KernelTuning()))
    assert bench.launches > 1
    assert blocks(tuned, x) == {LARGE}
    hinted = KernelTuning(hints={"s0": 8})
    assert blocks(fx_converter.convert(artifact(), options(bench, tmp_path, form, hinted)), x) == {SMALL}


@both_forms
def test_real_inputs_say_the_sizes(form: KernelCalls, bench: Bench, tmp_path: Path) -> None:
    for size, want in ((10, SMALL), (3000, LARGE)):
        tune = KernelTuning(inputs=[torch.ones(size)])
        module = fx_converter.convert(artifact(), options(bench, tmp_path, form, tune))
        assert blocks(module, torch.ones(5)) == {want}


@both_forms
def test_sizes_that_nothing_says_are_passed_over(form: KernelCalls, bench: Bench, tmp_path: Path) -> None:
    """With a note, and the first config; a hint or inputs determine the sizes."""
    count = torch.tensor(5)
    with pytest.warns(RuntimeWarning, match=r"TR606.*@say is not tuned: nothing is known of u0"):
        module = fx_converter.convert(artifact(UNBACKED), options(bench, tmp_path, form, KernelTuning()))
    assert bench.launches == 0
    assert blocks(module, count) == {SMALL}
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        for tune in (KernelTuning(hints={"u0": 2048}), KernelTuning(inputs=[torch.tensor(2048)])):
            module = fx_converter.convert(artifact(UNBACKED), options(bench, tmp_path, form, tune))
            assert blocks(module, count) == {LARGE}


@both_forms
def test_the_choice_is_saved(form: KernelCalls, bench: Bench, tmp_path: Path) -> None:
    module = fx_converter.convert(artifact(), options(bench, tmp_path, form, KernelTuning()))
    fx_converter.save(module, tmp_path / "graph.wir")
    (kernel,) = wrapper_ir.load(tmp_path / "graph.wir").program.kernels
    assert isinstance(kernel, ir.TritonKernel)
    assert [dict(config.meta) for config in kernel.configs] == [{"BLOCK": LARGE}]
    (launch,) = (n for n in module.graph.nodes if "kernel" in n.meta)
    assert launch.meta["kernel_hash"] == content_hash(kernel)
    before = bench.launches
    again = fx_converter.load(tmp_path / "graph.wir", options(bench, tmp_path, form, None))
    assert bench.launches == before
    assert blocks(again, torch.ones(300)) == {LARGE}


def test_without_a_device_known_times_decide(tmp_path: Path) -> None:
    """Torch's own form gets the chosen config: from the artifact's measurements, or from others.

    Without times, the first.
    """
    for_a_gpu = artifact(BACKED.replace("f32[s0]", "f32[s0] @cuda:0"), 'target cuda:0 arch "sm_90"')
    (kernel,) = for_a_gpu.program.kernels
    assert isinstance(kernel, ir.TritonKernel)
    small, large = (config_key(config) for config in kernel.configs)
    key = TuningKey(content_hash(kernel), "some device", "3.7", (4096,))
    measurements = Measurements(
        {key: Entry(order=(small, large), times={small: (2000,) * 5, large: (1000,) * 5})}
    )
    known = with_measurements(for_a_gpu, measurements)
    for given, others, want in ((for_a_gpu, (), SMALL), (known, (), LARGE), (for_a_gpu, (known,), LARGE)):
        tune = KernelTuning(machine=None, others=others)
        module = fx_converter.convert(given, FxOptions(kernel_calls="hop", convention="flat", tune=tune))
        (launch,) = (n for n in module.graph.nodes if "kernel" in n.meta)
        entered: Any = kernel_side_table.get_kernel(launch.kwargs["kernel_idx"])
        assert [config.kwargs for config in entered.configs] == [{"BLOCK": want}]
        ((programs,),) = launch.kwargs["grid"]
        assert str(programs.meta["val"]) == f"((s0 + {want - 1})//{want})"


def test_a_compiled_graph_is_tuned(bench: Bench, tmp_path: Path) -> None:
    run = fx_converter.compile(artifact(), options(bench, tmp_path, "direct", KernelTuning()))
    assert_same(run(torch.ones(3)), (torch.full((3,), float(LARGE)),))


def test_a_hint_for_no_symbol(bench: Bench, tmp_path: Path) -> None:
    with pytest.raises(ConvertError, match=r"(?s)FX103.*s9.*s0, u0, u1"):
        fx_converter.convert(artifact(), options(bench, tmp_path, "hop", KernelTuning(hints={"s9": 1})))
