"""Vector instructions: upstream's own answers, without its builds."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest
from torch._inductor import cpu_vec_isa
from torch._inductor.cpu_vec_isa import VecAMX, VecAVX2, VecAVX512, VecAVX512VNNI, VecISA

from inductor_frontend.vector_isa import quick_checks, supports

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() != "x86_64", reason="upstream answers itself elsewhere"
)

TESTS = [
    (VecAVX2(), VecISA._avx_code),
    (VecAVX512(), VecISA._avx_code),
    (VecAVX512VNNI(), VecAVX512VNNI._avx512_vnni_code),
    (VecAMX(), VecAMX._amx_code),
    (VecAVX512(), VecAMX._amx_code),
    (VecAVX2(), "int f("),
]
CAPTURE = """
import torch
from torch._inductor.cpp_builder import CppBuilder
from torch._inductor.cpu_vec_isa import valid_vec_isa_list
from inductor_frontend import capture

def refuse(self):
    raise AssertionError("a library is built")

CppBuilder.build = refuse
program = capture(torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Sigmoid()), (torch.ones(8, 64),)).program
(kernel,) = program.kernels
print(*kernel.isa, "of", *map(str, valid_vec_isa_list()), sep=",")
"""


@pytest.mark.parametrize(("isa", "code"), TESTS)
def test_the_answer_is_upstreams(isa: VecISA, code: str) -> None:
    assert supports(isa, code) is VecISA.check_build(isa, code)


def test_a_torch_without_these_functions_is_asked_by_upstreams_build(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("inductor_frontend.vector_isa._exports", lambda name: False)
    monkeypatch.setattr("inductor_frontend.vector_isa._upstream", lambda isa, code: "built")
    assert supports(VecAVX2(), VecISA._avx_code) == "built"  # type: ignore[comparison-overlap]


def test_upstream_is_left_as_it_was() -> None:
    before = VecISA.check_build
    with quick_checks():
        assert VecISA.check_build is supports
    assert VecISA.check_build is before


def test_capturing_builds_no_library(tmp_path: Path) -> None:
    env = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", CAPTURE], env=env, capture_output=True, text=True, check=True
    )
    chosen, known = done.stdout.strip().split(",of,")
    want = [str(isa) for isa in cpu_vec_isa.valid_vec_isa_list()]
    assert known.split(",") == want
    assert chosen.replace(",", " ") == want[0]
