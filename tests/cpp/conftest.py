"""Fixtures that several files of this folder share."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import cpp_wrapper
from cpp_wrapper._compat import torch_library_dir
from tests.cpp.clang import cmake

if TYPE_CHECKING:
    from tests.cpp.cpp_gpu import FakeGpu

EXAMPLE = Path(__file__).parents[2] / "examples" / "cpp_runner"


@pytest.fixture(scope="session")
def cpp_runner(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example of a program without Python, built with the runner's CMake package."""
    build = tmp_path_factory.mktemp("runner")
    done = cmake(
        *("-S", EXAMPLE, "-B", build, f"-DCMAKE_PREFIX_PATH={cpp_wrapper.cmake_prefix_path()}"),
        f"-DTORCH_LIBRARY_DIR={torch_library_dir()}",
    )
    assert done.returncode == 0, done.stderr
    done = cmake("--build", build)
    assert done.returncode == 0, done.stdout + done.stderr
    return build / "run_package"


@pytest.fixture(scope="session")
def loaded_fakes(tmp_path_factory: pytest.TempPathFactory) -> FakeGpu:
    """The fakes of this process: a second driver of the same name would not be found."""
    pytest.importorskip("triton", reason="kernels are bound by triton_runtime")
    from tests.cpp.cpp_gpu import load_fakes

    return load_fakes(tmp_path_factory.mktemp("fakes"))


@pytest.fixture(scope="module")
def gpu(loaded_fakes: FakeGpu) -> Iterator[FakeGpu]:
    """The fakes, where programs for CUDA devices run on them."""
    from tests.cpp.cpp_gpu import use_fakes

    gc.collect()  # programs of other tests
    loaded_fakes.log(), loaded_fakes.torch_log(), loaded_fakes.cuda.launches()
    with pytest.MonkeyPatch.context() as patch:
        use_fakes(patch)
        yield loaded_fakes
