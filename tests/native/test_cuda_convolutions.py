"""Convolutions of native libraries for CUDA devices, on a fake driver and a fake cuDNN."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import wrapper_ir_native
from inductor_frontend import CaptureOptions, capture
from tests.cpp.cpp_gpu import artifact_for_gpu
from tests.native.convolution_cases import CASES, EXTERN, program_of
from tests.native.cudnn_case import FakeCudnn, load_cudnn
from tests.native.device_case import FakeDevice, OnDevice, load_fakes, load_native
from wrapper_ir_native import NativeProgram
from wrapper_ir_passes.pipeline import run_on_artifact

_GENERATOR = torch.Generator().manual_seed(0)


@pytest.fixture(scope="module")
def gpu() -> FakeDevice:
    return load_fakes()


@pytest.fixture
def cudnn(monkeypatch: pytest.MonkeyPatch) -> FakeCudnn:
    fake = load_cudnn()
    monkeypatch.setenv("WIR_CUDNN", str(fake.path))
    return fake


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("libraries")


def _run(f: NativeProgram, inputs: Sequence[Tensor]) -> list[Tensor]:
    return [torch.from_numpy(y.numpy()) for y in f(*(OnDevice(x.numpy()) for x in inputs))]


def test_all_kinds_equal_torch(gpu: FakeDevice, cudnn: FakeCudnn, folder: Path) -> None:
    text, inputs, results = program_of(CASES)
    f = load_native(artifact_for_gpu(text), folder / "all.so")
    described = cudnn.count("live")
    for call in range(2):
        asked = cudnn.count("choose")
        gpu.log()
        outputs = f(*(OnDevice(x.numpy()) for x in inputs))
        # the weight of the third case, and the input of the fourth
        assert gpu.log().count("copy_elements") == 2
        for case, made, wanted in zip(CASES, outputs, results, strict=True):
            assert torch.allclose(torch.from_numpy(made.numpy()), wanted, atol=1e-5), case
        assert cudnn.count("choose") == asked + (len(CASES) - 1 if call == 0 else 0)
    assert cudnn.count("live") == described + 5 * (len(CASES) - 1)


def test_other_strides_are_copied(gpu: FakeDevice, cudnn: FakeCudnn, folder: Path) -> None:
    text = (
        EXTERN
        + """
func @main(%x: f32[2, 3, 6, 12], %w: f32[4, 3, 3, 6], %b: f32[8]) {
  %even = view %x : f32[2, 3, 6, 6]{216, 72, 12, 2}
  %kernel = view %w : f32[4, 3, 3, 3]{54, 18, 6, 2}
  %some = view %b : f32[4]{2}
  %y = call aten::convolution(%even, %kernel, %some, [1], [1], [1], false, [0], 1) : f32[2, 4, 6, 6]{1, 2, 8, 48}
  return %y
}
"""
    )
    f = load_native(artifact_for_gpu(text), folder / "strided.so")
    x, w, b = (torch.randn(*n, generator=_GENERATOR) for n in ((2, 3, 6, 12), (4, 3, 3, 6), (8,)))
    (y,) = _run(f, [x, w, b])
    wanted = torch.nn.functional.conv2d(x[..., ::2], w[..., ::2], b[::2], padding=1)
    torch.testing.assert_close(y, wanted)


_BATCHES = (
    "symbol s0 : int backed [1, 1024] hint 2\n"
    + EXTERN
    + """
const %w : f32[4, 3, 3, 3]
const %b : f32[4]

func @main(%x: f32[s0, 3, 8, 8]) {
  define s0 = size(%x, 0)
  %y = call aten::convolution(%x, %w, %b, [1, 1], [1, 1], [1, 1], false, [0, 0], 1) : f32[s0, 4, 8, 8]
  return %y
}
"""
)
_CONSTANTS = {"w": torch.randn(4, 3, 3, 3, generator=_GENERATOR), "b": torch.randn(4, generator=_GENERATOR)}


def _batch(count: int) -> tuple[list[Tensor], Tensor]:
    x = torch.randn(count, 3, 8, 8, generator=_GENERATOR)
    return [x], torch.nn.functional.conv2d(x, _CONSTANTS["w"], _CONSTANTS["b"], padding=1)


@pytest.fixture(scope="module")
def planned(gpu: FakeDevice, folder: Path) -> Path:
    artifact = run_on_artifact(
        artifact_for_gpu(_BATCHES, _CONSTANTS), "use-out-variants{runtime=native},plan-memory"
    )
    return load_native(artifact, folder / "planned.so").path


def _check(f: NativeProgram, count: int) -> None:
    inputs, wanted = _batch(count)
    torch.testing.assert_close(_run(f, inputs)[0], wanted)


def test_algorithms_are_chosen_once_for_each_size(gpu: FakeDevice, cudnn: FakeCudnn, planned: Path) -> None:
    f = wrapper_ir_native.load(planned)
    asked, handles = cudnn.count("choose"), cudnn.count("create")
    for count in (2, 5, 2, 5, 5):
        _check(f, count)
    assert cudnn.count("choose") == asked + 2
    assert cudnn.count("create") == handles + 1
    before = gpu.driver.fake_allocations()
    _check(f, 2)
    assert gpu.driver.fake_allocations() == before


def test_streams_have_own_workspaces(gpu: FakeDevice, cudnn: FakeCudnn, planned: Path) -> None:
    f = wrapper_ir_native.load(planned)
    memory = set()
    for stream in (0x10, 0x20, 0x10):
        f.stream = stream
        _check(f, 2)
        assert cudnn.library.fake_stream() == stream
        memory.add(cudnn.library.fake_workspace())
    f.stream = 0
    assert len(memory) == 2


def test_captured_calls_have_own_memory(gpu: FakeDevice, cudnn: FakeCudnn, planned: Path) -> None:
    f = wrapper_ir_native.load(planned)
    _check(f, 2)
    kept, before = cudnn.library.fake_workspace(), gpu.driver.fake_allocations()
    gpu.driver.fake_capture(1)
    try:
        _check(f, 2)
    finally:
        gpu.driver.fake_capture(0)
    assert cudnn.library.fake_workspace() != kept
    assert gpu.driver.fake_allocations() == before


def test_an_algorithm_that_does_not_work_is_left_out(
    gpu: FakeDevice, cudnn: FakeCudnn, planned: Path
) -> None:
    f = wrapper_ir_native.load(planned)
    calls = cudnn.count("forward")
    cudnn.refuse("forward", 1)
    _check(f, 3)
    assert cudnn.count("forward") == calls + 2
    _check(f, 3)
    assert cudnn.count("forward") == calls + 3


def test_a_bias_that_cudnn_does_not_add(gpu: FakeDevice, cudnn: FakeCudnn, planned: Path) -> None:
    f = wrapper_ir_native.load(planned)
    cudnn.refuse("add", 1)
    for _ in range(2):
        added = cudnn.count("add")
        _check(f, 7)
    assert cudnn.count("add") == added


def test_failures_name_the_operator_and_the_way_out(
    gpu: FakeDevice, cudnn: FakeCudnn, planned: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    f = wrapper_ir_native.load(planned)
    before = gpu.driver.fake_allocations()
    cudnn.refuse("choose", 1)
    with pytest.raises(
        wrapper_ir_native.NativeError,
        match=r"WIR927.*aten::convolution.out failed: cuDNN says 3000, FAKE_NOT",
    ):
        _run(f, _batch(4)[0])
    gpu.fail("cuMemAllocFromPoolAsync", 700)
    with pytest.raises(wrapper_ir_native.NativeError, match=r"CPP591"):
        _run(f, _batch(6)[0])
    _check(f, 6)
    del f
    monkeypatch.setenv("WIR_CUDNN", "/nowhere")
    other = wrapper_ir_native.load(planned)
    with pytest.raises(
        wrapper_ir_native.NativeError,
        match=r"WIR927.*aten::convolution.out failed: there is no cuDNN 9 .*nowhere.*WIR_CUDNN.*templates",
    ):
        _run(other, _batch(2)[0])
    del other
    assert gpu.driver.fake_allocations() <= before + 1


def test_bad_arguments_are_refused(gpu: FakeDevice, cudnn: FakeCudnn, folder: Path) -> None:
    text = (
        "symbol s0 : int backed [1, 64] hint 8\n"
        + EXTERN
        + """
func @main(%x: f32[2, 3, s0], %w: f32[4, 3, 5]) {
  define s0 = size(%x, 2)
  %y = call aten::convolution(%x, %w, none, [1], [0], [1], false, [0], 1) : f32[2, 4, s0 - 4]
  return %y
}
"""
    )
    f = load_native(artifact_for_gpu(text), folder / "small.so")
    w = torch.randn(4, 3, 5, generator=_GENERATOR)
    x = torch.randn(2, 3, 9, generator=_GENERATOR)
    torch.testing.assert_close(_run(f, [x, w])[0], torch.nn.functional.conv1d(x, w))
    with pytest.raises(wrapper_ir_native.NativeError, match=r"WIR927.*larger than the padded input"):
        f(OnDevice(np.zeros((2, 3, 4), dtype=np.float32)), OnDevice(w.numpy()))


def test_templates_of_convolutions_call_no_operator() -> None:
    model = nn.Sequential(nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 16, 1)).eval()
    x = torch.randn(2, 16, 16, 16)
    with torch.no_grad():
        options = CaptureOptions(matmuls="templates")
        program = capture(model, (x,), target="cuda:sm_90", options=options).program
    assert program.externs == ()
