"""What several files of this folder build once."""

from __future__ import annotations

from pathlib import Path

import pytest

import cpp_wrapper
from cpp_wrapper._compat import torch_library_dir
from tests.cpp.clang import cmake

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
