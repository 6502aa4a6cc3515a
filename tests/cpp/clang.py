"""CMake, and a compiler of another kind than g++: clang, as the package `ziglang` carries it."""

from __future__ import annotations

import importlib.util
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

_TOOLCHAIN = """set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER {c})
set(CMAKE_CXX_COMPILER {cxx})
"""


def cmake(*words: str | Path) -> subprocess.CompletedProcess[str]:
    """Returns the output of CMake. Skips the test without CMake."""
    command = shutil.which("cmake", path=f"{os.environ['PATH']}:{Path(sys.executable).parent}")
    if command is None:
        pytest.skip("needs cmake")
    return subprocess.run([command, *words], capture_output=True, text=True, check=False)


def _zig() -> Path:
    """Returns the folder of zig, whose command `clang` is clang itself.

    Skips the test if it is not installed.
    """
    spec = importlib.util.find_spec("ziglang")
    if spec is None or spec.origin is None:
        pytest.skip("needs the package ziglang")
    return Path(spec.origin).parent


def _include_openmp() -> str:
    """Adds g++'s folder of headers for `omp.h`, which kernels include and zig lacks.

    It is searched last, so no other header comes from it.
    """
    asked = ["g++", "-print-file-name=include"]
    return f"-idirafter {subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()}"


def _script(path: Path, command: str) -> Path:
    path.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def write_clang(folder: Path) -> tuple[str, str]:
    """Scripts `clang` and `clang++`, which take the system's C++ library and linker, as an installed clang
    does: nothing of zig's own is compiled first.
    """
    zig = _zig()
    clang = f"{zig}/zig clang --target=x86_64-linux-gnu -resource-dir {zig}/lib"
    c = _script(folder / "clang", clang)
    cxx = _script(folder / "clang++", f"{clang} --driver-mode=g++ {_include_openmp()}")
    return str(c), str(cxx)


def write_cross_toolchain(folder: Path) -> Path:
    """A toolchain file of CMake for arm64, with zig's own C++ library, which is compiled first (a minute)."""
    cache = f"ZIG_GLOBAL_CACHE_DIR={folder}/zig ZIG_LOCAL_CACHE_DIR={folder}/zig"
    zig = f"env {cache} {_zig()}/zig"
    openmp = folder / "openmp"
    openmp.mkdir()
    shutil.copy(Path(_include_openmp().split()[-1]) / "omp.h", openmp)
    c = _script(folder / "cross-cc", f"{zig} cc -target aarch64-linux-gnu")
    cxx = _script(folder / "cross-c++", f"{zig} c++ -target aarch64-linux-gnu -I{openmp}")
    path = folder / "toolchain.cmake"
    path.write_text(_TOOLCHAIN.format(c=c, cxx=cxx))
    return path
