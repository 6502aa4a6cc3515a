"""Calls of the CUDA driver: attributes, contexts, streams, errors, hooks."""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from packages.triton_runtime.tests.tr_fake_cuda import VECTOR, FakeCuda, clauses, launchable, load

from triton_runtime import DriverError, KernelError, LaunchError
from triton_runtime.cuda import CudaDriver, CudaOptions
from triton_runtime.cuda.extension import load_extension
from triton_runtime.errors import TritonRuntimeError
from triton_runtime.settings import Settings
from wrapper_ir import ir
from wrapper_ir.errors import StoreWarning
from wrapper_ir_runtime.cache import CacheSettings


def test_cooperative_clusters_and_dependent_launches(fake: FakeCuda) -> None:
    kernel = load(fake.driver(), *VECTOR, cluster=(4, 1, 1), cooperative=True, dependent_launch=True)
    x = torch.empty(64)
    kernel(x, x, 640)
    (launch,) = fake.launches()
    assert launch.extended
    assert {i: v[0] for i, v in launch.attributes.items()} == {6: 1, 2: 1, 4: 4, 5: 1}
    assert launch.attributes[4] == (4, 1, 1)
    assert (launch.grid, launch.block) == ((40, 1, 1), (128, 1, 1)), (
        "the driver counts blocks, four a program"
    )
    large = load(fake.driver(), *VECTOR, cluster=(16, 1, 1))
    large(x, x, 64)
    assert fake.function(fake.launches()[0]).attributes[14] == 1


def test_shared_memory_beyond_the_default_is_reserved(fake: FakeCuda) -> None:
    x = torch.empty(64)
    for shared, reserved, preferred in (
        (48 * 1024, 0, 0),
        (48 * 1024 + 1, 48 * 1024 + 1, 1),
        (227_000, 227_000, 1),
    ):
        load(fake.driver(), *VECTOR, shared_bytes=shared)(x, x, 64)
        (launch,) = fake.launches()
        assert (launch.shared, fake.function(launch).attributes[8], fake.function(launch).cache_config) == (
            shared,
            reserved,
            preferred,
        )


def test_scratch_memory_is_there_during_the_launch(fake: FakeCuda) -> None:
    kernel = load(
        fake.driver(),
        *VECTOR,
        scratch=ir.Scratch(nbytes=128, align=128),
        profile=ir.Scratch(nbytes=16, align=16),
        cluster=(2, 1, 1),
    )
    x = torch.empty(64)
    kernel(x, x, 640)
    (launch,) = fake.launches()
    scratch, profile = launch.params[3:]
    assert scratch != 0
    assert profile != 0
    assert abs(scratch - profile) >= 16 * 2 * 10


def test_errors_of_the_driver(fake: FakeCuda) -> None:
    kernel = load(fake.driver(), *VECTOR)
    x = torch.empty(64)
    fake.fail("cuLaunchKernel", 1)
    with pytest.raises(
        LaunchError, match=r"TR308.*'k' on cpu: could not launch: CUDA_ERROR_INVALID_VALUE \(1, said"
    ):
        kernel(x, x, 64)
    fake.fail("cuLaunchKernel", 700)
    with pytest.raises(LaunchError, match=r"TR308.*ILLEGAL_ADDRESS(.|\n)*hint: an earlier kernel failed"):
        kernel(x, x, 64)
    kernel(x, x, 64)
    for function, what in (
        ("cuDeviceGet", "use the device"),
        ("cuModuleLoadData", "load"),
        ("cuModuleGetFunction", "find the function"),
        ("cuFuncSetAttribute", "reserve shared memory"),
    ):
        fake.fail(function, 1)
        with pytest.raises(DriverError, match=rf"TR505.*could not {what}: CUDA_ERROR_INVALID_VALUE"):
            load(fake.driver(), *VECTOR, shared_bytes=100_000)
    fake.fail("cuFuncSetAttribute", 1)
    with pytest.raises(DriverError, match="takes 100000 bytes of shared memory a block"):
        load(fake.driver(), *VECTOR, shared_bytes=100_000)
    load(fake.driver(), *VECTOR, shared_bytes=100_000)(x, x, 64)
    with pytest.raises(DriverError, match=r"TR505.*find the function"):
        load(fake.driver(), *VECTOR, symbol="elsewhere")


def test_full_memory_is_torchs_error(fake: FakeCuda) -> None:
    kernel, x = load(fake.driver(), *VECTOR), torch.empty(64)
    fake.fail("cuLaunchKernel", 2)
    with pytest.raises(torch.OutOfMemoryError, match=r"TR308.*could not launch") as caught:
        kernel(x, x, 64)
    assert isinstance(caught.value, TritonRuntimeError)
    fake.fail("cuModuleLoadData", 2)
    with pytest.raises(torch.OutOfMemoryError, match=r"TR505.*could not load"):
        load(fake.driver(), *VECTOR)
    kernel(x, x, 64)


def test_a_missing_driver_a_foreign_library_and_no_device(
    fake: FakeCuda, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(DriverError, match=r"TR504.*no-such-libcuda(.|\n)*hint: kernels for CUDA run where"):
        load(CudaDriver(options=CudaOptions(library="no-such-libcuda.so"), settings=fake.settings), *VECTOR)
    monkeypatch.setenv("FAKE_CUDA_NO_DEVICE", "1")
    with pytest.raises(DriverError, match=r"TR504.*cuInit failed with 100 \(no CUDA-capable device"):
        load(fake.driver(), *VECTOR)


def test_contexts_of_other_threads_and_devices(fake: FakeCuda) -> None:
    """Launches use the kernel's device if the thread has no current one or another, and restore the thread's."""
    driver = fake.driver(stream=lambda index: 100 + index)
    kernel = load(driver, "i32 n", clauses(["n"]), device=ir.Device("cuda", 2))
    other = load(driver, "i32 n", clauses(["n"]), device=ir.Device("cuda", 1))

    def work() -> None:
        kernel(1)
        fake.library.fake_enter(1)
        kernel(2)
        other(3)
        fake.library.fake_leave()

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    launches = fake.launches()
    assert [launch.stream for launch in launches] == [102, 102, 101]
    assert launches[0].context == launches[1].context != launches[2].context


def test_hooks_see_each_launch_and_may_stop_it(fake: FakeCuda) -> None:
    driver = fake.driver()
    kernel = load(driver, *VECTOR)
    x = torch.empty(64)
    calls: list[tuple[Any, ...]] = []
    kernel(x, x, 64)
    driver.hooks.enter = lambda *arguments: calls.append(("enter", *arguments))
    driver.hooks.exit = lambda *arguments: calls.append(("exit", *arguments))
    kernel(x, x, 640, stream=5)
    assert calls == [("enter", kernel, (10, 1, 1), 5), ("exit", kernel, (10, 1, 1), 5)]
    kernel(x, x, 0)
    assert len(calls) == 2, "no launch, no hook"
    assert len(fake.launches()) == 2

    def stop(*arguments: Any) -> None:
        raise KeyError("stop")

    driver.hooks.enter = stop
    with pytest.raises(KeyError, match="stop"):
        kernel(x, x, 64)
    assert not fake.launches()
    driver.hooks.enter = driver.hooks.exit = None
    kernel(x, x, 64)
    assert len(fake.launches()) == 1
    load(fake.driver(), *VECTOR)(x, x, 64)
    assert len(calls) == 2, "other drivers have hooks of their own"


def test_the_stream_comes_from_the_caller_s_function(fake: FakeCuda) -> None:
    indices: list[int] = []

    def stream(index: int) -> int:
        indices.append(index)
        return 77

    kernel = load(fake.driver(stream=stream), *VECTOR)
    x = torch.empty(64)
    kernel(x, x, 64)
    kernel(x, x, 64, stream=8)
    assert [launch.stream for launch in fake.launches()] == [77, 8]
    assert indices == [-1]

    def broken(index: int) -> int:
        raise OSError("no stream")

    with pytest.raises(OSError, match="no stream"):
        load(fake.driver(stream=broken), *VECTOR)(x, x, 64)


def test_an_unloaded_kernel_refuses_launches(fake: FakeCuda) -> None:
    kernel: Any = load(fake.driver(), *VECTOR)  # Any: `unload` is the extension's own
    x = torch.empty(64)
    kernel(x, x, 64)
    (launch,) = fake.launches()
    kernel.unload()
    kernel.unload()
    assert fake.function(launch).unloaded == 1
    with pytest.raises(LaunchError, match=r"TR308.*unload"):
        kernel(x, x, 64)


def test_what_cannot_be_loaded_says_so(fake: FakeCuda) -> None:
    kernel = launchable(*VECTOR)
    with pytest.raises(KernelError, match=r"TR110.*no binary"):
        fake.driver().load(replace(kernel, binary=None), ir.CPU)
    text = ".visible .entry f(.param .u64 a, .param .u64 b, .param .u32 c, .param .u64 d)\n{"
    with pytest.raises(
        KernelError, match=r"TR109.*'k' takes 4 parameters, where 5 would be passed(.|\n)*Triton none"
    ):
        launchable(*VECTOR, assembly=text)


def test_many_threads_launch_at_once(fake: FakeCuda) -> None:
    kernel = load(fake.driver(), *VECTOR)
    tensors = [torch.empty(64) for _ in range(4)]

    def work(i: int) -> None:
        for n in range(200):
            kernel(tensors[i], tensors[i], n * 4 + i)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    launches = fake.launches()
    assert sorted(launch.params[2] for launch in launches) == [n for n in range(800) if n >= 1]
    assert all(launch.params[0] == tensors[launch.params[2] % 4].data_ptr() for launch in launches)


def test_references_are_kept_as_they_were(fake: FakeCuda) -> None:
    driver = fake.driver()
    driver.hooks.enter = lambda *arguments: None
    kernel: Any = load(driver, *VECTOR, scratch=ir.Scratch(nbytes=8))
    x = torch.empty(64)
    big = 1000
    counts: Callable[[], list[int]] = lambda: [sys.getrefcount(o) for o in (x, kernel, big, None)]  # noqa: E731
    before = counts()
    for _ in range(1000):
        kernel(x, x, big, stream=3)
    for _ in range(100):
        with pytest.raises(LaunchError):
            kernel(x, None, big)
    after = counts()
    assert all(abs(a - b) < 50 for a, b in zip(before, after)), (before, after)
    fake.launches()


def test_cache_of_the_launcher(fake: FakeCuda, tmp_path: Path) -> None:
    """Builds once, and rebuilds a damaged file. Without a compiler or a folder the error names the next step."""
    settings = Settings(
        cache=CacheSettings(folder=tmp_path / "cache", fallback=tmp_path / "fallback"), jobs=1
    )
    with pytest.raises(DriverError, match=r"TR501.*no-such-compiler(.|\n)*WRAPPER_IR_CXX"):
        load_extension(replace(settings, compiler="no-such-compiler"))
    with pytest.raises(DriverError, match=r"TR502.*refused(.|\n)*command: /\S*false"):
        load_extension(replace(settings, compiler="false"))
    assert not list((tmp_path / "cache").rglob("*.so"))
    # ensures that it exists
    load_extension(fake.settings)
    assert fake.settings.cache.folder is not None
    shutil.copytree(
        fake.settings.cache.folder / "1/launchers", tmp_path / "cache/1/launchers", dirs_exist_ok=True
    )
    load_extension(replace(settings, compiler="no-such-compiler"))
    (copy,) = tmp_path.glob("cache/1/launchers/*/*/launcher.so")
    data = copy.read_bytes()
    copy.unlink()
    copy.write_bytes(data[:-1])
    with (
        pytest.warns(StoreWarning, match=r"WIR254.*launcher\.so holds"),
        pytest.raises(DriverError, match=r"TR501"),
    ):
        load_extension(replace(settings, compiler="no-such-compiler"))
    assert not copy.exists(), "what does not fit its manifest is never loaded"
    (tmp_path / "file").touch()
    nowhere = replace(settings.cache, folder=tmp_path / "file" / "c")
    with pytest.warns(StoreWarning, match=r"WIR251.*fallback"):
        load_extension(replace(settings, cache=nowhere))
    assert list(tmp_path.glob("fallback/1/launchers/*/*/launcher.so"))
    nowhere = replace(nowhere, fallback=tmp_path / "file" / "d")
    with pytest.warns(StoreWarning, match=r"WIR251.*using .*wrapper-ir-"):
        load_extension(replace(settings, cache=nowhere))


def test_the_launcher_is_built_in_the_background(fake: FakeCuda, tmp_path: Path) -> None:
    """The first user waits for the build and gets its errors."""
    settings = Settings(cache=CacheSettings(folder=tmp_path), jobs=1, compiler="no-such-compiler")
    for one in (settings, replace(settings, compiler="g++")):
        driver = CudaDriver(options=CudaOptions(library=str(fake.path)), settings=one)
        driver.prepare()
        if one is settings:
            with pytest.raises(DriverError, match="TR501"):
                load(driver, *VECTOR)
    for thread in threading.enumerate():
        if thread.name == "triton-launcher":
            thread.join()
    assert list(tmp_path.glob("1/launchers/*/*/launcher.so"))


def test_processes_that_want_the_launcher_at_once_build_it_once(tmp_path: Path) -> None:
    log = tmp_path / "runs"
    counting = tmp_path / "counting-g++"
    counting.write_text(f'#!/bin/sh\necho run >> {log}\nexec g++ "$@"\n')
    counting.chmod(0o755)
    script = (
        "import pathlib, sys\nfrom triton_runtime.cuda.extension import load_extension\n"
        "from triton_runtime.settings import Settings\nfrom wrapper_ir_runtime.cache import "
        "CacheSettings\nroot = pathlib.Path(sys.argv[1])\n"
        "settings = Settings(cache=CacheSettings(folder=root / 'c'), jobs=1, compiler=sys.argv[2])\n"
        "print(load_extension(settings).__name__)\n"
    )
    command = [sys.executable, "-c", script, str(tmp_path), str(counting)]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    assert [process.communicate(timeout=60)[0] for process in running] == ["wrapper_ir_cuda_launcher\n"] * 3
    assert log.read_text().split() == ["run"]
