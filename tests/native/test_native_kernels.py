"""Kernels of native libraries: threads or none, several instruction sets, random numbers; no symbol of torch."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch._inductor import inductor_prims

import cpp_wrapper
from inductor_frontend import capture
from tests.native.native_case import NativeLibrary, build_native

pytestmark = pytest.mark.slow

_ALLOWED = ("libc.so", "libm.so", "libstdc++.so", "libgcc_s.so", "libgomp.so", "ld-linux", "linux-vdso")


def _reductions(x: Tensor) -> tuple[Tensor, ...]:
    return x.sum(), x.var(), x.argmax(), x.amin(), x.prod(), (x > 3).any(), x.softmax(-1), x.mean(0)


def _functions(x: Tensor) -> tuple[Tensor, ...]:
    y = x.abs() + 1
    return (
        x.exp() + x.sin() + x.cos() + x.tanh() + x.erf() + x.expm1() + x.atan() + x.sinh(),
        y.log() + y.log2() + y.log10() + y.log1p() + y.lgamma() + y.acosh() + y.pow(x) + y.hypot(x),
        torch.atan2(x, y) + torch.fmod(x, y) + torch.copysign(x, y) + (x / 100).asin() + (x / 100).atanh(),
        x.double().exp()
        + x.double().tanh()
        + y.double().log()
        + y.double().pow(x.double())
        + x.double().sin(),
    )


def _needed(path: Path) -> list[str]:
    listing = subprocess.run(["ldd", str(path)], check=True, capture_output=True, text=True).stdout
    return [line for line in listing.splitlines() if not any(name in line for name in _ALLOWED)]


@pytest.mark.parametrize("threads", ["openmp", "none"])
def test_reductions_by_two_threads(threads: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    x = torch.randn(400, 1000) + 0.5  # one thread sums everything: the error is that of 400,000 additions
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        artifact = capture(_reductions, (x,))
    finally:
        torch.set_num_threads(before)
    assert "_arr[tid]" in "".join(s.source for k in artifact.program.kernels for s in k.sources)  # type: ignore[union-attr]
    library = build_native(artifact, tmp_path, threads=threads)
    expected = _reductions(x)
    for actual, value in zip(library([x], len(expected)), expected, strict=True):
        torch.testing.assert_close(actual, value, rtol=1e-4, atol=1e-5)
    assert not _needed(tmp_path / "model.so")


def test_each_level_has_its_own_functions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.randn(37, 41) * 3
    artifact = capture(_functions, (x,), cpu_isas=("avx512", "avx2", "generic"))
    build_native(artifact, tmp_path, threads="none")
    assert not _needed(tmp_path / "model.so")
    expected = _functions(x)
    for level in ("avx512", "avx2", "default"):  # a library chooses once: each level opens another file
        path = tmp_path / f"{level}.so"
        shutil.copy(tmp_path / "model.so", path)
        monkeypatch.setenv("ATEN_CPU_CAPABILITY", level)
        for actual, value in zip(NativeLibrary(path)([x], len(expected)), expected, strict=True):
            torch.testing.assert_close(actual, value)


def _random(seeds: Tensor) -> tuple[Tensor, ...]:
    first, second = inductor_prims.lookup_seed(seeds, 0), inductor_prims.lookup_seed(seeds, 1)
    return (
        inductor_prims.random([33, 50], first, "rand"),
        inductor_prims.random([33, 50], second, "randn"),
        inductor_prims.randint(-5, 1000, [33, 50], first),
    )


def test_random_numbers_of_kernels(tmp_path: Path) -> None:
    seeds = torch.tensor([123456789, -77])
    artifact = capture(_random, (seeds,))
    library = build_native(artifact, tmp_path)
    reference = cpp_wrapper.load(cpp_wrapper.build(artifact, tmp_path / "torch.so"))
    for actual, value in zip(library([seeds], 3), reference(seeds), strict=True):
        assert actual is not None
        assert torch.equal(actual, value)
