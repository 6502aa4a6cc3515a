"""Fixtures: kernels loaded into Triton's interpreter, and a recording CUDA driver."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from packages.triton_runtime.tests.tr_fake_cuda import FakeCuda, build_fake
from packages.triton_runtime.tests.triton_texts import launchable

from triton_runtime.compile.forking import Forker
from triton_runtime.interp import InterpreterDriver
from triton_runtime.settings import Settings
from wrapper_ir import ir
from wrapper_ir.plugins.protocols import LoadedKernel
from wrapper_ir_runtime.cache import CacheSettings

Load = Callable[..., LoadedKernel]


@pytest.fixture
def load(tmp_path: Path) -> Load:
    """Loads a kernel, with its first config or another."""

    def run(kernel: ir.TritonKernel, config: int = 0) -> LoadedKernel:
        return InterpreterDriver(folder=tmp_path).load(launchable(kernel, config), ir.CPU)

    return run


@pytest.fixture(scope="session")
def forker() -> Iterator[Forker]:
    """Starts compiler processes for many tests: its server starts more slowly than a kernel compiles."""
    shared = Forker()
    yield shared
    shared.close()


@pytest.fixture(scope="session")
def built_fake_cuda(tmp_path_factory: pytest.TempPathFactory) -> FakeCuda:
    """The compiled fake driver, with one cache for the session."""
    root = tmp_path_factory.mktemp("cuda")
    settings = Settings(cache=CacheSettings(folder=root / "cache", fallback=root / "fallback"), jobs=1)
    return FakeCuda(build_fake(root), settings)


@pytest.fixture
def fake(built_fake_cuda: FakeCuda) -> Iterator[FakeCuda]:
    """The fake driver with an empty record."""
    built_fake_cuda.library.fake_reset()
    yield built_fake_cuda
    assert built_fake_cuda.library.fake_depth() == 0, "the current context is what it was"
