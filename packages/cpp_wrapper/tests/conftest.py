"""Fixtures: private caches, a compiler that counts its runs, and kernels that compile in a moment."""

from __future__ import annotations

import shutil
import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from cpp_wrapper.kernels.binding import load_launcher
from cpp_wrapper.kernels.options import CppOptions
from cpp_wrapper.kernels.runtime import CppKernelRuntime
from cpp_wrapper.kernels.toolchain import find_toolchain
from cpp_wrapper.settings import Settings
from wrapper_ir import ir
from wrapper_ir_runtime.cache import CacheSettings, open_cache


@dataclass(frozen=True, slots=True)
class Bench:
    """A runtime with a separate cache and compiler."""

    root: Path
    settings: Settings

    def runtime(self, options: CppOptions | None = None) -> CppKernelRuntime:
        """A runtime on this cache."""
        return CppKernelRuntime(options=options or CppOptions(), settings=self.settings)

    def runs(self) -> list[str]:
        """The compiler's command lines so far, without those that query its version."""
        log = self.root / "runs.log"
        lines = log.read_text().splitlines() if log.exists() else []
        return [line for line in lines if line != "-v"]

    def kernel_runs(self) -> list[str]:
        """Runs that were not for the launcher."""
        return [line for line in self.runs() if "launcher.cpp" not in line]

    def libraries(self) -> list[Path]:
        """The cache's kernel libraries."""
        return sorted(self.cache_folder.glob("1/cpp/*/*/kernels.so"))

    def notes(self) -> list[Path]:
        """Files that name the library of a kernel."""
        found = self.cache_folder.glob("1/cpp/*/*/data")
        return sorted(path for path in found if path.read_bytes().startswith(b"{"))

    @property
    def cache_folder(self) -> Path:
        """The root of the cache."""
        folder = self.settings.cache.folder
        assert folder is not None
        return folder


def make_bench(root: Path, cache: Path) -> Bench:
    """Returns a bench whose compiler is g++ behind a script that records its arguments."""
    root.mkdir(parents=True, exist_ok=True)
    script = root / "counting-g++"
    script.write_text(f'#!/bin/sh\nprintf "%s\\n" "$*" >> "{root}/runs.log"\nexec g++ "$@"\n')
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    folders = CacheSettings(folder=cache, fallback=root / "fallback")
    return Bench(root, Settings(cache=folders, compiler=str(script), jobs=2))


@pytest.fixture(scope="session")
def warm_launcher(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache with only the launcher, so that tests with separate caches need not build it."""
    bench = make_bench(tmp_path_factory.mktemp("warm"), tmp_path_factory.mktemp("warm-cache"))
    load_launcher(find_toolchain(bench.settings.compiler), open_cache(bench.settings.cache), CppOptions())
    return bench.cache_folder


@pytest.fixture
def bench(tmp_path: Path, warm_launcher: Path) -> Bench:
    """A runtime with an empty cache (but for the launcher)."""
    cache = tmp_path / "cache"
    shutil.copytree(warm_launcher, cache)
    return make_bench(tmp_path, cache)


@pytest.fixture(scope="session")
def shared_bench(tmp_path_factory: pytest.TempPathFactory, warm_launcher: Path) -> Bench:
    """A runtime on the cache of the whole test session."""
    root = tmp_path_factory.mktemp("shared")
    shutil.copytree(warm_launcher, root / "cache")
    return make_bench(root, root / "cache")


Scale = Callable[..., ir.CppKernel]


@pytest.fixture(scope="session")
def scale() -> Scale:
    """Makes kernels `out[i] = factor * in[i]` of different source text; no header is read, so they compile fast."""

    def make(name: str, factor: int = 2, body: str = "") -> ir.CppKernel:
        return ir.CppKernel(
            name=name,
            params=(
                ir.KernelParam(
                    name="in0", kind=ir.ParamKind.POINTER, dtype=ir.DType.F32, access=ir.Access.READ
                ),
                ir.KernelParam(
                    name="out0", kind=ir.ParamKind.POINTER, dtype=ir.DType.F32, access=ir.Access.WRITE
                ),
                ir.KernelParam(name="n", kind=ir.ParamKind.SCALAR, dtype=ir.DType.I64),
            ),
            source=f"""
#include <cstdint>
{body}
extern "C" void kernel(const float* in0, float* out0, const int64_t n)
{{
    for (int64_t i = 0; i < n; ++i) out0[i] = in0[i] * {factor}.0f;
}}
""",
            entry="kernel",
        )

    return make
