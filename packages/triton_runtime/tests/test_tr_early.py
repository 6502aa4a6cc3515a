"""Compiles kernels while their program is still being compiled; loading waits, and compiles nothing twice."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from packages.triton_runtime.tests.compiling import BROKEN, CLAUSES, PARAMS, MemoryStore, cuda, job_of
from packages.triton_runtime.tests.triton_texts import kernel_of

from triton_runtime import Binary, CompileError, TritonOptions, TritonRuntime
from triton_runtime._compat import LANGUAGE, no_compiler_hash
from triton_runtime.compile.early import EarlyCompilations
from triton_runtime.compile.job import CompileJob
from triton_runtime.compile.service import CompileStats, Workers, compile_each
from triton_runtime.fake import FakeDriver
from triton_runtime.settings import Settings
from wrapper_ir import ir
from wrapper_ir_runtime.cache import CacheSettings

SOURCE = """
@triton.jit
def fill(x_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + at, {value}, at < n)
"""


def kernel(value: float) -> ir.TritonKernel:
    return kernel_of(PARAMS, CLAUSES, SOURCE.format(value=value), entry="fill")


class Compiler:
    """A compiler that finishes when a test allows it."""

    def __init__(self) -> None:
        self.allowed, self.asked = threading.Event(), list[str]()

    def __call__(self, jobs: Sequence[CompileJob]) -> list[Binary | Exception]:
        self.allowed.wait()
        self.asked += [job.key for job in jobs]
        return [ValueError(job.key) for job in jobs]


class TestEarlyCompilations:
    def test_asking_waits_and_gives_each_result_once(self, tmp_path: Path) -> None:
        early, compiler = EarlyCompilations(), Compiler()
        one, other = (job_of(kernel(value), tmp_path) for value in (1.0, 2.0))
        early.begin([one, other, one], compiler)
        assert not early.take(["another key"])
        threading.Timer(0.05, compiler.allowed.set).start()
        assert str(early.take([one.key, one.key])[one.key]) == one.key
        assert list(early.take([one.key, other.key])) == [other.key]
        assert compiler.asked == [one.key, other.key]

    def test_what_was_begun_is_not_begun_again(self, tmp_path: Path) -> None:
        early, compiler = EarlyCompilations(), Compiler()
        one, other = (job_of(kernel(value), tmp_path) for value in (1.0, 2.0))
        early.begin([one], compiler)
        early.begin([one, other], compiler)
        compiler.allowed.set()
        assert set(early.take([one.key, other.key])) == {one.key, other.key}
        assert sorted(compiler.asked) == sorted([one.key, other.key])

    def test_results_that_nobody_takes_are_forgotten(self, tmp_path: Path) -> None:
        early, compiler = EarlyCompilations(), Compiler()
        compiler.allowed.set()
        one, other = (job_of(kernel(value), tmp_path) for value in (1.0, 2.0))
        early.begin([one], compiler)
        next(iter(early._pending.values())).result()
        early.begin([other], compiler)
        assert list(early._pending) == [other.key]

    def test_where_a_thread_fails_whoever_asks_compiles(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(threading, "excepthook", lambda failure: None)

        def fail(jobs: Sequence[CompileJob]) -> list[Binary | Exception]:
            raise MemoryError

        early, job = EarlyCompilations(), job_of(kernel(1.0), tmp_path)
        early.begin([job], fail)
        assert not early.take([job.key])

    def test_a_copy_of_the_process_waits_for_no_thread(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        early, compiler, job = EarlyCompilations(), Compiler(), job_of(kernel(1.0), tmp_path)
        early.begin([job], compiler)
        monkeypatch.setattr(os, "getpid", lambda: -1)
        assert not early.take([job.key])
        compiler.allowed.set()


class TestRuntime:
    def test_each_kernel_is_compiled_once(self, tmp_path: Path) -> None:
        runtime = TritonRuntime(settings=Settings(cache=CacheSettings(folder=tmp_path), jobs=1))
        kernels = [kernel(1.0)]
        runtime.compile_early(kernels, cuda("sm_90"))
        (binary,) = runtime.compile(kernels, cuda("sm_90")).values()
        assert binary.image.startswith(b"\x7fELF")
        assert (runtime.stats.compiled, runtime.stats.reused) == (1, 0)

    def test_loading_says_what_does_not_compile(self, tmp_path: Path) -> None:
        runtime = TritonRuntime(settings=Settings(cache=CacheSettings(folder=tmp_path), jobs=1))
        broken = kernel_of(PARAMS, CLAUSES, BROKEN, entry="broken")
        runtime.compile_early([broken], cuda("sm_90"))
        with pytest.raises(CompileError, match="TR201"):
            runtime.compile([broken], cuda("sm_90"))

    def test_two_kernels_of_one_name_are_for_loading_to_refuse(self, tmp_path: Path) -> None:
        runtime = TritonRuntime(settings=Settings(cache=CacheSettings(folder=tmp_path), jobs=1))
        runtime.compile_early([kernel(1.0), kernel(2.0)], cuda("sm_90"))
        assert not runtime.stats.compiled

    def test_nothing_for_a_driver_that_is_given(self, tmp_path: Path) -> None:
        options = TritonOptions(driver=FakeDriver())
        runtime = TritonRuntime(
            settings=Settings(cache=CacheSettings(folder=tmp_path), jobs=1), options=options
        )
        runtime.compile_early([kernel(1.0)], cuda("sm_90"))
        assert runtime._world is None


def test_compiling_here_hashes_no_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It does not prevent other threads from using Triton's own key."""
    from triton.runtime import cache

    monkeypatch.setattr(cache, "triton_key", lambda: "Triton's own")
    with LANGUAGE, no_compiler_hash():
        keys = [cache.triton_key()]
        thread = threading.Thread(target=lambda: keys.append(cache.triton_key()))
        thread.start()
        thread.join()
    assert keys[0].startswith("wrapper-ir")
    assert keys[1] == cache.triton_key() == "Triton's own"

    def fail() -> str:
        pytest.fail("Triton hashes itself")

    monkeypatch.setattr(cache, "triton_key", fail)
    with ThreadPoolExecutor(1) as threads:
        workers = Workers(executor=threads)
        (result,) = compile_each([job_of(kernel(3.0), tmp_path)], MemoryStore(), workers, CompileStats())
    assert isinstance(result, Binary), result
