"""Programs for CUDA devices: their text, and calls to the driver and torch, on fakes."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from packages.py_wrapper.tests.stream_program import STREAMS
from torch import Tensor

import cpp_wrapper
from cpp_wrapper import CppError, DeviceError, EmitError, LaunchError
from cpp_wrapper._compat import torch_library_dir
from tests.cpp.collective_programs import SHARED
from tests.cpp.cpp_case import FAST
from tests.cpp.cpp_gpu import (
    CHOSEN,
    CHOSEN_OPERATOR,
    DESCRIBED,
    DOUBLED,
    KEPT,
    MIXED,
    TOUCHY,
    FakeGpu,
    artifact_for_gpu,
    run_by_handles,
)
from wrapper_ir import ir, parse_program
from wrapper_ir.artifact import bare_artifact
from wrapper_ir.errors import ArgumentError, TensorCheckError

pytest.importorskip("triton", reason="kernels are bound by triton_runtime")

GOLDEN = Path(__file__).parent / "golden"
RUNNER = Path(__file__).parents[2] / "examples" / "cpp_runner"
W = torch.arange(1024.0)
CONSTANTS = {"w": W, "none": torch.empty(0, 4)}
MAP = ir.TensorMap(box=(64, 32), element_type=7, element_size=4, swizzle=3)


@pytest.fixture(scope="module")
def mixed(gpu: FakeGpu, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A package for two architectures."""
    artifact = artifact_for_gpu(MIXED, CONSTANTS, ("sm_80", "sm_90"))
    return cpp_wrapper.build(artifact, tmp_path_factory.mktemp("mixed") / "m.pt2", FAST)


def _inputs(count: int = 200) -> tuple[Tensor, Tensor, Tensor]:
    return torch.randn(count), torch.tensor(3), torch.randn(4)


def _check(found: tuple[Any, ...], inputs: tuple[Tensor, Tensor, Tensor], w: Tensor) -> None:
    x, _, h = inputs
    y, z, none, number = found
    torch.testing.assert_close(y, x + 0.5 * w[: len(x)])
    torch.testing.assert_close(z, 2 * h)
    assert (none.shape, number) == ((0, 4), 6)


@pytest.mark.parametrize(
    "name", ["gpu_mixed", "gpu_descriptors", "gpu_chosen", "gpu_streams", "gpu_group_memory"]
)
def test_golden(name: str, update_golden: bool) -> None:
    artifacts = {
        "gpu_mixed": lambda: artifact_for_gpu(MIXED, CONSTANTS, ("sm_80", "sm_90")),
        "gpu_descriptors": lambda: artifact_for_gpu(DESCRIBED, maps=(MAP,)),
        "gpu_chosen": lambda: artifact_for_gpu(CHOSEN),
        "gpu_streams": lambda: bare_artifact(parse_program(STREAMS)),
        "gpu_group_memory": lambda: bare_artifact(parse_program(SHARED)),
    }
    text, path = str(cpp_wrapper.emit(artifacts[name]())), GOLDEN / f"{name}.cpp"
    if update_golden:
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


@pytest.mark.slow
def test_programs_on_host_and_device(gpu: FakeGpu, mixed: Path) -> None:
    program = cpp_wrapper.load(mixed)
    for count in (200, 8, 1000):
        inputs = _inputs(count)
        _check(program(*inputs), inputs, W)
    assert gpu.log() == ["launch 0 0"] * 3
    assert gpu.torch_log() == []  # no device to make current
    assert gpu.cuda.library.fake_depth() == 0


def test_calls_go_to_the_callers_stream(gpu: FakeGpu, mixed: Path) -> None:
    program, inputs = cpp_wrapper.load(mixed), _inputs()
    gpu.torch.fake_stream(ctypes.c_void_p(0x70))
    _check(program(*inputs), inputs, W)
    gpu.torch.fake_stream(None)
    assert gpu.log() == ["launch 70 0"]


def test_torchs_interface_takes_a_device_and_a_stream(gpu: FakeGpu, tmp_path: Path) -> None:
    artifact = artifact_for_gpu(MIXED, CONSTANTS)
    library = ctypes.CDLL(str(cpp_wrapper.build(artifact, tmp_path / "m.so", FAST)))
    container, inputs = ctypes.c_void_p(), _inputs()
    assert library.AOTInductorModelContainerCreateWithDevice(ctypes.byref(container), 1, b"cpu", None) == 1
    assert library.AOTInductorModelContainerCreateWithDevice(ctypes.byref(container), 1, b"cuda:2", None) == 0
    gpu.torch.fake_device(0, 2)
    results = run_by_handles(library, container, inputs, 4, stream=0x70)
    gpu.torch.fake_device(0, 0)
    _check((*results[:3], int(results[3])), inputs, W)
    assert library.AOTInductorModelContainerDelete(container) == 0
    assert gpu.log() == ["launch 70 0"]
    assert gpu.torch_log() == ["device 2", "stream 70", "back to stream 0", "back to device 0"]


def test_the_device_is_chosen_when_loading(gpu: FakeGpu, mixed: Path) -> None:
    program, inputs = cpp_wrapper.load(mixed, 1), _inputs()
    assert program.metadata["device"] == "cuda:1"
    with pytest.raises(ArgumentError, match=r"expected f32.s0. on cuda:1, got f32.200. on cpu"):
        program(*inputs)
    gpu.torch.fake_device(1, 1)
    _check(program(*inputs), inputs, W)
    gpu.torch.fake_device(0, 0)
    gpu.log()
    gpu.torch_log()


def test_code_is_chosen_by_the_devices_architecture(gpu: FakeGpu, mixed: Path) -> None:
    images = {}
    for capability in (80, 86, 90):
        gpu.cuda.library.fake_arch(capability)
        program, inputs = cpp_wrapper.load(mixed, 3), _inputs()
        gpu.torch.fake_device(3, 3)
        gpu.cuda.launches()
        program(*inputs)
        function = gpu.cuda.function(gpu.cuda.launches()[0])
        images[capability] = function.context
        gpu.torch.fake_device(0, 0)
        assert not function.unloaded
        del program
        assert function.unloaded  # at once, as everything on the device
    for capability in (75, 100):
        gpu.cuda.library.fake_arch(capability)
        with pytest.raises(DeviceError, match=rf"CPP592.*sm_{capability}.*sm_80, sm_90"):
            cpp_wrapper.load(mixed, 3)
    gpu.cuda.library.fake_arch(90)


def test_constants_are_updated(gpu: FakeGpu, mixed: Path) -> None:
    program, inputs, w = cpp_wrapper.load(mixed), _inputs(), torch.randn(1024)
    program.update_constants({"w": w})
    _check(program(*inputs), inputs, w)
    other = torch.randn(1024)
    program.update_constants({"w": other}, is_inactive=True, is_borrowed=True)
    _check(program(*inputs), inputs, w)
    program.swap_constants()
    other.mul_(2)
    _check(program(*inputs), inputs, other)


def test_many_threads(gpu: FakeGpu, mixed: Path) -> None:
    program = cpp_wrapper.load(mixed)

    def work(seed: int) -> None:
        for step in range(20):
            inputs = _inputs(8 + (seed * 37 + step * 11) % 900)
            _check(program(*inputs), inputs, W)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    gpu.log()


def test_memory_that_persists_belongs_to_a_stream(gpu: FakeGpu, tmp_path: Path) -> None:
    program = cpp_wrapper.load(
        cpp_wrapper.build(artifact_for_gpu(KEPT), tmp_path / "m.so", replace(FAST, persistent_buffers=True))
    )
    results = []

    def intermediate(stream: int = 0, is_captured: int = 0) -> int:
        gpu.torch.fake_stream(ctypes.c_void_p(stream))
        gpu.cuda.library.fake_capture(is_captured)
        x = torch.randn(1024)
        results.extend(program(x))  # kept, so that no other result has its address
        gpu.cuda.library.fake_capture(0)
        gpu.torch.fake_stream(None)
        torch.testing.assert_close(results[-1], 3 * x)
        first, second = gpu.cuda.launches()
        assert first.params[2] == second.params[0]
        return int(first.params[2])

    gpu.cuda.launches()
    main = intermediate()
    side = intermediate(0x70)
    assert main != side
    assert intermediate(0x70, is_captured=1) not in (main, side)
    assert (intermediate(), intermediate(0x70), intermediate()) == (main, side, main)
    gpu.log()


def test_streams_and_events(gpu: FakeGpu, tmp_path: Path) -> None:
    program = gpu.load(bare_artifact(parse_program(STREAMS)), tmp_path / "m.so")
    x, w = torch.randn(512, 512), torch.randn(512, 512)
    gpu.log(), gpu.torch_log()
    sums, host, counts = program(x, w)
    torch.testing.assert_close(sums, x @ w + w @ x)
    torch.testing.assert_close(host, sums)
    assert not counts.any()
    steps = [line.split() for line in gpu.log()]
    side = steps[1][1]
    events = {event: n for n, event in enumerate(dict.fromkeys(s[1] for s in steps if s[0] == "record"))}
    named = [
        " ".join(str(events.get(word, {side: "side", "0": "main"}.get(word, word))) for word in s)
        for s in steps
    ]
    assert named[:8] == ["record 0 main", "wait side 0", "record 1 side", "wait main 1", "record 2 main",
                         "wait side 2", "record 3 main", "synchronize 3 main"]  # fmt: skip
    assert sorted(s[0] for s in steps[8:]) == ["destroy_event"] * 4
    current = gpu.torch_log()
    assert current == [f"stream {side}", "back to stream 0"] * (len(current) // 2)
    assert len(current) >= 4


@pytest.mark.skipif(shutil.which("cmake") is None, reason="needs cmake")
def test_a_program_without_python(gpu: FakeGpu, tmp_path: Path) -> None:
    """The C++ runner, built with its CMake package beside torch's library for CUDA."""
    artifact = artifact_for_gpu(DOUBLED, {"w": 2 * torch.eye(3)})
    package = cpp_wrapper.build(artifact, tmp_path / "m.pt2", FAST)
    options = (
        f"-DCMAKE_PREFIX_PATH={cpp_wrapper.cmake_prefix_path()}",
        f"-DTORCH_LIBRARY_DIR={torch_library_dir()}",
        f"-DWRAPPER_IR_TORCH_CUDA={gpu.folder / 'libfake_torch_cuda.so'}",
    )
    build = tmp_path / "build"
    for step in (("-S", str(RUNNER), "-B", str(build), *options), ("--build", str(build))):
        subprocess.run(["cmake", *step], check=True, capture_output=True)
    (tmp_path / "x").write_bytes(torch.arange(6).numpy().tobytes())
    words: list[str | Path] = [
        build / "run_package",
        "--device",
        "cuda:0",
        package,
        tmp_path / "y",
        tmp_path / "x",
        "2",
        "3",
    ]
    (tmp_path / "libcuda.so.1").symlink_to(gpu.cuda.path)
    env = {**os.environ, "LD_LIBRARY_PATH": str(tmp_path)}
    subprocess.run(words, check=True, capture_output=True, env=env)
    assert (tmp_path / "y").read_bytes() == torch.arange(0.0, 12.0, 2).numpy().tobytes()
    words[2] = "cpu"
    wrong = subprocess.run(words, check=False, capture_output=True, text=True, env=env)
    assert "runs on cuda, not on cpu" in wrong.stderr


def test_launches_with_attributes(gpu: FakeGpu, tmp_path: Path) -> None:
    facts = ir.LaunchFacts(
        symbol="attributes",
        num_warps=4,
        warp_size=32,
        cluster=(2, 1, 1),
        shared_bytes=100_000,
        cooperative=True,
        dependent_launch=True,
        scratch=ir.Scratch(nbytes=128, align=128),
    )
    program = gpu.load(artifact_for_gpu(MIXED, CONSTANTS, facts=facts), tmp_path / "m.so")
    gpu.cuda.launches()
    program(*_inputs(100))
    [launched] = gpu.cuda.launches()
    assert (launched.grid, launched.block, launched.shared) == ((4, 1, 1), (128, 1, 1), 100_000)
    assert {n: v[0] for n, v in launched.attributes.items()} == {6: 1, 2: 1, 4: 2, 5: 1}
    assert launched.params[5] != 0
    assert launched.params[6] == 0
    assert gpu.cuda.function(launched).attributes[8] == 100_000


def test_sizes_choose_among_kernels(gpu: FakeGpu, tmp_path: Path) -> None:
    program = gpu.load(artifact_for_gpu(CHOSEN), tmp_path / "m.so")
    gpu.cuda.launches()
    for count, blocks in ((8, 1), (255, 4), (256, 4), (257, 1), (10_000, 10)):
        program(torch.randn(count))
        (seen,) = gpu.cuda.launches()
        assert seen.grid == (blocks, 1, 1), count


def test_sizes_choose_a_librarys_operator(gpu: FakeGpu, tmp_path: Path) -> None:
    program = gpu.load(artifact_for_gpu(CHOSEN_OPERATOR), tmp_path / "m.so")
    gpu.cuda.launches()
    program(torch.randn(8, 8))
    assert len(gpu.cuda.launches()) == 1
    x = torch.randn(48, 48)
    torch.testing.assert_close(program(x)[0], x @ x)
    assert gpu.cuda.launches() == []


@pytest.mark.parametrize("with_maps", [True, False])
def test_descriptors_of_tensors(gpu: FakeGpu, tmp_path: Path, with_maps: bool) -> None:
    """Tensors in the form of the device's copy engine, or as address, sizes and strides."""
    artifact = artifact_for_gpu(DESCRIBED, maps=(MAP,) if with_maps else ())
    program = gpu.load(artifact, tmp_path / "m.so")
    gpu.cuda.launches()
    x = torch.randn(100, 400)
    program(x)
    (seen,) = gpu.cuda.launches()
    base, layout = x.data_ptr() + 160, (100, 200, 400, 1)
    if not with_maps:
        assert seen.params[:9] == (base, *layout, *layout)
        return
    (words,) = seen.maps
    assert words[0] == base
    assert words[1] & ~(1 << 21) == 3 << 32 | 7 << 8 | 2
    assert (words[2:4], words[7], words[12]) == ((200, 100), 1600, 64 << 12 | 32)
    assert seen.params[1:5] == layout
    gpu.cuda.fail("cuTensorMapEncodeTiled", 1)
    with pytest.raises(DeviceError, match=r"CPP591.*describe a tensor"):
        program(x)


def test_what_a_kernel_does_not_take(gpu: FakeGpu, tmp_path: Path) -> None:
    program = gpu.load(
        artifact_for_gpu("symbol u0 : int unbacked [-100, 10000000000]\n" + TOUCHY), tmp_path / "m.so"
    )
    x, aligned = torch.randn(66)[1:], torch.randn(65)
    with pytest.raises(TensorCheckError, match=r"not aligned to 16"):
        program(x, 64)
    with pytest.raises(LaunchError, match=r"CPP593.*-1, and"):
        program(aligned, -64)
    with pytest.raises(CppError, match=r"CPP405"):
        program(aligned, 2**33)
    gpu.cuda.fail("cuLaunchKernel", 700)
    with pytest.raises(DeviceError, match=r"CPP591.*launch kernel add: CUDA_ERROR_ILLEGAL_ADDRESS"):
        program(aligned, 64)
    torch.testing.assert_close(program(aligned, 64)[0], 2 * aligned[:64])
    gpu.cuda.launches()
    program(aligned, 0)  # an empty grid
    assert gpu.cuda.launches() == []


def test_faults_when_loading_leave_nothing(gpu: FakeGpu, mixed: Path) -> None:
    for function in ("cuModuleLoadData", "cuModuleGetFunction", "cuDeviceGet"):
        gpu.cuda.fail(function, 1)
        with pytest.raises(DeviceError, match=r"CPP591.*said the fake driver"):
            cpp_wrapper.load(mixed, 2)
    assert gpu.cuda.library.fake_depth() == 0


def test_kernels_without_code_are_refused() -> None:
    artifact = artifact_for_gpu(MIXED, CONSTANTS)
    plain = replace(artifact, binaries=tuple(replace(b, params=b.params[:-1]) for b in artifact.binaries))
    with pytest.raises(EmitError, match=r"CPP504.*@add"):
        cpp_wrapper.emit(plain)
