"""Fixtures: a CUDA driver that writes down what it is asked for."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from packages.triton_runtime.tests.tr_fake_cuda import FakeCuda, build_fake

from triton_runtime.settings import Settings


@pytest.fixture(scope="session")
def built_fake_cuda(tmp_path_factory: pytest.TempPathFactory) -> FakeCuda:
    """The fake driver, compiled, with a cache that is kept for the whole session."""
    root = tmp_path_factory.mktemp("cuda")
    settings = Settings(cache_dir=root / "cache", fallback_dir=root / "fallback", jobs=1)
    return FakeCuda(build_fake(root), settings)


@pytest.fixture
def fake(built_fake_cuda: FakeCuda) -> Iterator[FakeCuda]:
    """The fake driver, with nothing written down."""
    built_fake_cuda.library.fake_reset()
    yield built_fake_cuda
    assert built_fake_cuda.library.fake_depth() == 0, "the current context is what it was"
