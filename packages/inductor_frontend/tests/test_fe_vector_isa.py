"""Vector instruction sets: the same results as Inductor's, without its builds."""

from __future__ import annotations

import os
import platform
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from torch._inductor import config, cpu_vec_isa
from torch._inductor.cpp_builder import get_cpp_compiler
from torch._inductor.cpu_vec_isa import VecAMX, VecAVX2, VecAVX512, VecAVX512VNNI, VecISA

from inductor_frontend.devices.vector_isa import quick_checks, supports

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() != "x86_64", reason="Inductor answers itself elsewhere"
)

TESTS = [
    (VecAVX2(), VecISA._avx_code),
    (VecAVX512(), VecISA._avx_code),
    (VecAVX512VNNI(), VecAVX512VNNI._avx512_vnni_code),
    (VecAMX(), VecAMX._amx_code),
    (VecAVX512(), VecAMX._amx_code),
    (VecAVX2(), "int f("),
]
CPUS = ("x86-64-v2", "x86-64-v4", "sapphirerapids", "znver3")
"""CPUs, or architecture levels, by compiler names: without AVX; with AVX-512; with its VNNI and AMX; AMD with
AVX2."""
OTHERS = [
    ("x86-64-v2", VecAVX2(), VecISA._avx_code),
    *((cpu, isa, code) for cpu in CPUS for isa, code in TESTS[2:]),
]
COMPILER = """#!/bin/sh
for flag do
  shift
  [ "$flag" = -march=native ] && flag=-march={cpu}
  set -- "$@" "$flag"
done
exec {compiler} "$@"
"""
CAPTURE = """
import torch
from torch._inductor.cpp_builder import CppBuilder
from torch._inductor.cpu_vec_isa import valid_vec_isa_list
from inductor_frontend import capture

def refuse(self):
    raise AssertionError("a library is built")

CppBuilder.build = refuse
model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Sigmoid())
program = capture(model, (torch.ones(8, 64),)).program
(kernel,) = program.kernels
print(*kernel.isa)
print(*map(str, valid_vec_isa_list()), sep=",")
"""


@pytest.mark.slow
@pytest.mark.parametrize(("isa", "code"), TESTS)
def test_the_answer_is_inductors(isa: VecISA, code: str) -> None:
    assert supports(isa, code) is VecISA.check_build(isa, code)


@pytest.mark.slow
@pytest.mark.parametrize(("cpu", "isa", "code"), OTHERS)
def test_the_answer_is_inductors_on_other_cpus(
    cpu: str, isa: VecISA, code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`-march=native` has its meaning on another CPU, for Inductor's build and for ours. Nothing is
    executed."""
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "cache"))
    with config.patch({"cpp.cxx": (None, _compiler_for(cpu, tmp_path))}):
        assert supports(isa, code) is VecISA.check_build(isa, code)


def test_amx_is_what_the_cpu_has(tmp_path: Path) -> None:
    """Two CPUs have different results: the simulation distinguishes them."""
    results = {}
    for cpu in ("sapphirerapids", "x86-64-v2"):
        with config.patch({"cpp.cxx": (None, _compiler_for(cpu, tmp_path))}):
            results[cpu] = supports(VecAVX512(), VecAMX._amx_code)
    assert results == {"sapphirerapids": True, "x86-64-v2": False}


def _compiler_for(cpu: str, folder: Path) -> str:
    """Returns a compiler whose `native` CPU is `cpu`; the test is skipped if the compiler does not support
    it."""
    compiler = shutil.which(get_cpp_compiler()) or get_cpp_compiler()
    probe = subprocess.run(
        [compiler, f"-march={cpu}", "-x", "c++", "-c", "-", "-o", os.devnull], input=b"", capture_output=True
    )
    if probe.returncode:
        pytest.skip(f"the compiler does not know {cpu}")
    script = folder / cpu / Path(compiler).name
    script.parent.mkdir()
    script.write_text(COMPILER.format(cpu=cpu, compiler=shlex.quote(compiler)))
    script.chmod(0o755)
    return str(script)


def test_a_torch_without_these_functions_is_asked_by_inductors_build(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("inductor_frontend.devices.vector_isa._exports", lambda name: False)
    monkeypatch.setattr("inductor_frontend.devices.vector_isa._plain", lambda isa, code: "built")
    assert supports(VecAVX2(), VecISA._avx_code) == "built"  # type: ignore[comparison-overlap]


def test_inductor_is_left_as_it_was() -> None:
    before = VecISA.check_build
    with quick_checks():
        assert VecISA.check_build is supports
    assert VecISA.check_build is before


@pytest.mark.slow
def test_capturing_builds_no_library(tmp_path: Path) -> None:
    env = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(tmp_path)}
    result = subprocess.run(
        [sys.executable, "-c", CAPTURE], env=env, capture_output=True, text=True, check=True
    )
    name, cached = result.stdout.split("\n")[:2]
    assert cached == ",".join(str(isa) for isa in cpu_vec_isa.valid_vec_isa_list())
    assert name == str(cpu_vec_isa.pick_vec_isa() or "")
