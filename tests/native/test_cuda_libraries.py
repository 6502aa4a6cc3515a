"""Native libraries of programs for CUDA devices: memory, streams, copies, matmuls, graphs; on a fake driver."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import wrapper_ir_native
from cpp_wrapper import EmitError
from tests.cpp.cpp_gpu import CHOSEN, DESCRIBED, GRAPH_PASSES, KEPT, MATMULS, MIXED, SUMS, artifact_for_gpu
from tests.native.device_case import FakeDevice, OnDevice, load_fakes, load_native
from wrapper_ir_native import ArgumentError, DeviceTensor, NativeProgram
from wrapper_ir_passes.pipeline import run_on_artifact

_MIXED = {"w": torch.arange(1024.0), "none": torch.zeros(0, 4)}
_GENERATOR = torch.Generator().manual_seed(0)
_MATRICES = {
    "w": torch.randn(6, 4, generator=_GENERATOR),
    "bias": torch.randn(6, generator=_GENERATOR),
    "batches": torch.randn(2, 6, 6, generator=_GENERATOR),
}


@pytest.fixture(scope="module")
def gpu() -> FakeDevice:
    return load_fakes()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("libraries")


@pytest.fixture(scope="module")
def mixed(gpu: FakeDevice, folder: Path) -> NativeProgram:
    return load_native(artifact_for_gpu(MIXED, _MIXED), folder / "mixed.so")


def _floats(count: int) -> np.ndarray:
    return np.arange(count, dtype=np.float32)


def test_kernels_of_both_devices_and_constants(gpu: FakeDevice, mixed: NativeProgram) -> None:
    x, i, h = _floats(8), np.array(5), np.ones(4, dtype=np.float32)
    y, z, none, number = mixed(OnDevice(x), OnDevice(i), h)
    assert isinstance(y, DeviceTensor)
    assert (y.shape, y.dtype, y.device) == ((8,), "f32", 0)
    np.testing.assert_allclose(np.asarray(y.numpy()), x + 0.5 * np.arange(8))
    np.testing.assert_allclose(z.numpy(), [2.0] * 4)
    assert none.shape == (0, 4)
    assert number == 10


# --- arguments and results


def test_arrays_of_the_host_are_copied_and_results_come_back(mixed: NativeProgram) -> None:
    x = _floats(6)
    y, z, _, _ = mixed(x, np.array(1), np.ones(4, dtype=np.float32))
    assert type(y) is np.ndarray
    assert type(z) is np.ndarray
    np.testing.assert_allclose(y, x + 0.5 * np.arange(6))


def test_tensors_elsewhere_are_refused(mixed: NativeProgram) -> None:
    h = np.ones(4, dtype=np.float32)
    with pytest.raises(
        ArgumentError, match=r"WIR926.*x: expected f32\[s0\] on cuda:0, got f32\[8\] on cuda:1"
    ):
        mixed(OnDevice(_floats(8), index=1), OnDevice(np.array(5)), h)
    with pytest.raises(ArgumentError, match=r"WIR926.*h: expected f32\[4\] on cpu, got f32\[4\] on cuda:0"):
        mixed(OnDevice(_floats(8)), OnDevice(np.array(5)), OnDevice(h))


def test_results_are_freed_in_order_of_their_stream(gpu: FakeDevice, mixed: NativeProgram) -> None:
    before = gpu.driver.fake_allocations()
    mixed.stream = 0x1234
    x = OnDevice(_floats(8))
    try:
        results = mixed(x, OnDevice(np.array(5)), np.ones(4, dtype=np.float32))
    finally:
        mixed.stream = 0
    assert x.streams == [0x1234]
    assert gpu.driver.fake_allocations() > before
    del results
    assert gpu.driver.fake_allocations() == before
    assert gpu.driver.fake_freed_on() == 0x1234


def test_results_are_exported_without_a_copy(gpu: FakeDevice, mixed: NativeProgram) -> None:
    y = mixed(OnDevice(_floats(8)), OnDevice(np.array(5)), np.ones(4, dtype=np.float32))[0]
    assert y.__dlpack_device__() == (2, 0)
    before = gpu.driver.fake_allocations()
    gpu.log()
    for versions in ({}, {"max_version": (1, 0)}):
        y.__dlpack__(**versions, stream=1)  # the capsule frees it unread
    assert gpu.log() == []
    y.__dlpack__(stream=0x99)
    assert gpu.log() == ["synchronize_stream"]
    with pytest.raises(BufferError, match="without a copy"):
        y.__dlpack__(copy=True)
    again = mixed(y, OnDevice(np.array(5)), np.ones(4, dtype=np.float32))[0]
    np.testing.assert_allclose(again.numpy(), y.numpy() + 0.5 * np.arange(8))
    del y, again
    assert gpu.driver.fake_allocations() == before - 1


def test_run_into_uses_memory_of_the_caller(gpu: FakeDevice, mixed: NativeProgram) -> None:
    x, i, h = OnDevice(_floats(8)), OnDevice(np.array(5)), np.ones(4, dtype=np.float32)
    backing = np.zeros(64 + 8, dtype=np.float32)
    start = -backing.ctypes.data % 64 // 4
    targets = [backing[start : start + 8], np.zeros(4, dtype=np.float32), np.zeros((0, 4), dtype=np.float32)]
    before = gpu.driver.fake_allocations()
    gpu.log()
    mixed.run_into([OnDevice(target) for target in targets], x, i, h)
    np.testing.assert_allclose(targets[0], _floats(8) + 0.5 * np.arange(8))
    np.testing.assert_allclose(targets[1], 2.0)
    assert gpu.driver.fake_allocations() == before
    strided = np.zeros((8, 2), dtype=np.float32)
    mixed.run_into([OnDevice(strided[:, 0]), OnDevice(targets[1]), OnDevice(targets[2])], x, i, h)
    np.testing.assert_allclose(strided[:, 0], targets[0])
    assert "copy_elements" in gpu.log()
    assert not strided[:, 1].any()


# --- constants


def test_constants_of_the_device_are_updated_and_extracted(mixed: NativeProgram) -> None:
    old = mixed.extract_constant("w")
    np.testing.assert_allclose(np.asarray(old), np.arange(1024))
    mixed.update_constants({"w": np.full(1024, 2, dtype=np.float32)})
    arguments = OnDevice(_floats(8)), OnDevice(np.array(5)), np.ones(4, dtype=np.float32)
    np.testing.assert_allclose(mixed(*arguments)[0].numpy(), _floats(8) + 1)
    borrowed = np.full(1024, 4, dtype=np.float32)
    mixed.update_constants({"w": OnDevice(borrowed)}, is_borrowed=True)
    borrowed[:] = 8
    np.testing.assert_allclose(mixed(*arguments)[0].numpy(), _floats(8) + 4)
    mixed.update_constants({"w": old})
    np.testing.assert_allclose(mixed(*arguments)[0].numpy(), _floats(8) + 0.5 * np.arange(8))


# --- matmuls, graphs, descriptors, choices


def test_matmuls_by_cublas(gpu: FakeDevice, folder: Path) -> None:
    f = load_native(artifact_for_gpu(MATMULS, _MATRICES), folder / "matmuls.so")
    x = torch.randn(2, 5, 4, generator=_GENERATOR)
    before = gpu.matmuls.fake_matmuls()
    for _ in range(2):
        b, c, d = f(OnDevice(x.numpy()))
        w, bias, batches = _MATRICES["w"], _MATRICES["bias"], _MATRICES["batches"]
        a = (x.reshape(10, 4) @ w.T + bias).view(2, 5, 6)
        torch.testing.assert_close(torch.from_numpy(b.numpy()), a.view(10, 6) @ w)
        torch.testing.assert_close(torch.from_numpy(c.numpy()), a @ batches)
        torch.testing.assert_close(torch.from_numpy(d.numpy()), 0.5 * (a @ batches) + 2 * (a @ batches))
    assert gpu.matmuls.fake_matmuls() == before + 8


_COPIED_FACTORS = """
extern "aten::addmm.out(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1, Tensor(a!) out) -> Tensor(a!)"
extern "aten::mm(Tensor self, Tensor mat2) -> Tensor"

func @main(%x: f32[6, 8], %bias: f32[3]) {
  %even = view %x : f32[6, 4]{8, 2}
  %other = view %x : f32[4, 3]{2, 8}
  %rows = view %bias : f32[6, 3]{0, 1}
  %y = alloc f32[6, 3]{1, 6}
  call aten::addmm.out(%rows, %even, %other, beta=2, alpha=3, out=%y)
  %none = view %x : f32[6, 0]{8, 1}
  %empty = view %x : f32[0, 8]
  %z = call aten::mm(%none, %empty) : f32[6, 8]
  return %y, %z
}
"""


def test_factors_that_blas_does_not_take_are_copied(gpu: FakeDevice, folder: Path) -> None:
    f = load_native(artifact_for_gpu(_COPIED_FACTORS), folder / "copied.so")
    x, bias = torch.randn(6, 8, generator=_GENERATOR), torch.randn(3, generator=_GENERATOR)
    y, z = f(OnDevice(x.numpy()), OnDevice(bias.numpy()))
    even, other = x.as_strided((6, 4), (8, 2)), x.as_strided((4, 3), (2, 8))
    torch.testing.assert_close(torch.from_numpy(y.numpy()), torch.addmm(bias, even, other, beta=2, alpha=3))
    assert not z.numpy().any()


def test_replayable_functions_run_as_graphs(gpu: FakeDevice, folder: Path) -> None:
    artifact = run_on_artifact(artifact_for_gpu(SUMS), GRAPH_PASSES)
    f = load_native(artifact, folder / "sums.so")
    w = _floats(8)
    x = np.ones(8, dtype=np.float32)
    gpu.log()
    for number in range(6):
        x[:] = number
        np.testing.assert_allclose(f(OnDevice(x), OnDevice(w))[0].numpy(), x + 1.5 * w)
    log = gpu.log()
    assert log.count("begin_capture") == 1, log
    assert log.count("replay") >= 3, log


def test_graphs_of_matmuls_have_own_memory(gpu: FakeDevice, folder: Path) -> None:
    artifact = run_on_artifact(artifact_for_gpu(MATMULS, _MATRICES), GRAPH_PASSES)
    f = load_native(artifact, folder / "graphs.so")
    x = torch.randn(2, 5, 4, generator=_GENERATOR)
    first = [one.numpy() for one in f(OnDevice(x.numpy()))]
    for _ in range(5):
        for one, other in zip(f(OnDevice(x.numpy())), first, strict=True):
            np.testing.assert_allclose(one.numpy(), other)


def test_kernels_take_descriptors_and_are_chosen_by_sizes(gpu: FakeDevice, folder: Path) -> None:
    f = load_native(artifact_for_gpu(CHOSEN), folder / "chosen.so")
    for count in (8, 5000):
        np.testing.assert_allclose(f(OnDevice(_floats(count)))[0].numpy(), 2 * _floats(count))
    load_native(artifact_for_gpu(DESCRIBED), folder / "described.so")(
        OnDevice(np.zeros((100, 400), dtype=np.float32))
    )


# --- memory


def test_planned_memory_is_kept_between_calls(gpu: FakeDevice, folder: Path) -> None:
    f = load_native(run_on_artifact(artifact_for_gpu(KEPT), "plan-memory"), folder / "kept.so")
    x = OnDevice(_floats(1024))
    f(x)
    before = gpu.driver.fake_allocations()
    for _ in range(3):
        np.testing.assert_allclose(f(x)[0].numpy(), 3 * _floats(1024))
    assert gpu.driver.fake_allocations() == before


def test_models_give_their_memory_back(gpu: FakeDevice, folder: Path) -> None:
    path = folder / "kept.so"
    if not path.exists():
        pytest.skip("built by the test before this one")
    before, trims = gpu.driver.fake_allocations(), gpu.driver.fake_trims()
    for _ in range(3):
        wrapper_ir_native.load(path)(OnDevice(_floats(1024)))
    assert gpu.driver.fake_allocations() == before
    assert gpu.driver.fake_trims() >= trims + 3


def test_devices_without_pools_allocate_at_once(
    gpu: FakeDevice, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_CUDA_NO_POOLS", "1")
    f = load_native(run_on_artifact(artifact_for_gpu(KEPT), "plan-memory"), folder / "plain.so")
    np.testing.assert_allclose(f(OnDevice(_floats(1024)))[0].numpy(), 3 * _floats(1024))


# --- failures


def test_failures_of_the_driver_are_coded_and_lose_nothing(gpu: FakeDevice, mixed: NativeProgram) -> None:
    arguments = OnDevice(_floats(8)), OnDevice(np.array(5)), np.ones(4, dtype=np.float32)
    before = gpu.driver.fake_allocations()
    for function in ("cuMemAllocFromPoolAsync", "cuLaunchKernel", "cuMemcpyDtoDAsync_v2"):
        gpu.fail(function, 700)
        with pytest.raises(wrapper_ir_native.NativeError, match=r"CPP591.*CUDA_ERROR_ILLEGAL_ADDRESS"):
            mixed(*arguments)
        assert gpu.driver.fake_allocations() == before
    gpu.fail("cuMemFreeAsync", 700)  # a stream that its owner has destroyed
    mixed(*arguments)
    assert gpu.driver.fake_allocations() == before


def test_a_device_that_is_not_there(gpu: FakeDevice, mixed: NativeProgram) -> None:
    with pytest.raises(wrapper_ir_native.NativeError, match=r"CPP591.*find the device"):
        wrapper_ir_native.load(mixed.path, device=7)
    with pytest.raises(ArgumentError, match="index of a device"):
        wrapper_ir_native.load(mixed.path, device=-1)
    y = wrapper_ir_native.load(mixed.path, device=2)(
        OnDevice(_floats(8), index=2), OnDevice(np.array(5), index=2), np.ones(4, dtype=np.float32)
    )[0]
    assert y.device == 2


def test_operators_of_a_device_are_refused_together(tmp_path: Path) -> None:
    text = """
extern "aten::flip(Tensor self, int[] dims) -> Tensor"
extern "aten::cumsum(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor"

func @main(%x: f32[8]) {
  %turned = call aten::flip(%x, [0]) : f32[8]
  %sums = call aten::cumsum(%turned, 0) : f32[8]
  return %sums, %turned
}
"""
    with pytest.raises(
        EmitError, match=r"CPP502.*2 of the program's operators: aten::cumsum on cuda:0, aten::flip on cuda:0"
    ):
        load_native(artifact_for_gpu(text), tmp_path / "m.so")


_ARRANGED = """
extern "aten::cat(Tensor[] tensors, int dim=0) -> Tensor"
extern "aten::constant_pad_nd(Tensor self, SymInt[] pad, Scalar value=0) -> Tensor"
extern "aten::full(SymInt[] size, Scalar fill_value, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor"
extern "aten::permute(Tensor(a) self, int[] dims) -> Tensor(a)"

func @main(%x: f32[2, 3]) {
  %turned = call aten::permute(%x, [1, 0]) : f32[3, 2]{1, 3}
  %full = call aten::full([3, 2], 7, dtype=f32, device=device(cuda:0)) : f32[3, 2]
  %both = call aten::cat([%turned, %full], dim=1) : f32[3, 4]
  drop %turned
  free %full
  %padded = call aten::constant_pad_nd(%both, [1, 0, 0, 1], 5) : f32[4, 5]
  return %both, %padded
}
"""


def test_operators_that_arrange_elements_run_on_a_device(gpu: FakeDevice, folder: Path) -> None:
    x = torch.arange(6.0).view(2, 3)
    both, padded = load_native(artifact_for_gpu(_ARRANGED), folder / "arranged.so")(OnDevice(x.numpy()))
    wanted = torch.cat([x.T, torch.full((3, 2), 7.0)], dim=1)
    torch.testing.assert_close(torch.from_numpy(both.numpy()), wanted)
    wanted = torch.nn.functional.pad(wanted, (1, 0, 0, 1), value=5)
    torch.testing.assert_close(torch.from_numpy(padded.numpy()), wanted)
