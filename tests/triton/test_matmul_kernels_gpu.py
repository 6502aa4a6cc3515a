"""Matmuls by kernels of the program on a device, against torch's operators there."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import cpp_wrapper
import py_wrapper
from cpp_wrapper import CppOptions
from inductor_frontend import capture
from tests.triton.matmul_programs import Case, expected, inputs, with_kernels
from wrapper_ir import ir
from wrapper_ir.artifact import bare_artifact
from wrapper_ir_passes.pipeline import run_on_artifact

pytestmark = pytest.mark.gpu

HALF, BRAIN = torch.float16, torch.bfloat16
CASES = (
    Case(rows=33, columns=65, depth=24),
    Case(rows=64, columns=32, depth=64, dtype=BRAIN, layout="columns", bias="columns"),
    Case(rows=1, columns=40, depth=1500, layout="window", bias="full", alpha=0.5, beta=2.0),
    Case(rows=20, columns=24, depth=70, bias="full", alpha=-0.5, beta=0.25),
    Case(rows=17, columns=24, depth=70, batch=3, layout="columns", bias="full", beta=-1.0),
    Case(rows=9, columns=24, depth=70, dynamic=True, bias="columns", dtype=HALF),
    Case(rows=64, columns=768, depth=3072, dtype=BRAIN, bias="columns"),
    Case(rows=64, columns=5025, depth=768, dtype=BRAIN, layout="columns"),
    Case(rows=1, columns=768, depth=768, dtype=BRAIN, bias="columns"),
    Case(rows=1, columns=5025, depth=768, dtype=BRAIN, layout="columns"),
    Case(rows=8, columns=2048, depth=2048, dtype=HALF, layout="columns"),
    Case(rows=512, columns=512, depth=512, dtype=BRAIN, layout="columns"),
)  # fmt: skip


def _arch() -> str:
    major, minor = torch.cuda.get_device_capability()
    return f"sm_{major}{minor}"


@pytest.mark.parametrize("case", CASES, ids=str)
def test_first_and_last_config(case: Case) -> None:
    tensors = inputs(case, "cuda")
    wanted = expected(case, tensors)
    tolerance = {torch.float32: 1e-4, HALF: 1e-2, BRAIN: 5e-2}[case.dtype]
    program = with_kernels(case, arch=_arch())
    first, *rest = program.kernels
    assert isinstance(first, ir.TritonKernel)
    for config in dict.fromkeys((first.configs[0], first.configs[-1])):
        kernels = (dataclasses.replace(first, configs=(config,)), *rest)
        call = py_wrapper.compile(bare_artifact(dataclasses.replace(program, kernels=kernels)))
        torch.testing.assert_close(
            call(*tensors)[0], wanted, rtol=tolerance, atol=tolerance * case.depth**0.5
        )


class Model(nn.Module):
    """Layers with and without a bias."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(128, 384), nn.Linear(384, 128, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        for _ in range(2):
            x = x + self.second(torch.relu(self.first(x)))
        return x


@pytest.mark.parametrize("rows", [1, 48])
def test_native_libraries_open_no_cublas(rows: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WIR_CUBLASLT", str(tmp_path / "nothing.so"))
    torch.manual_seed(0)
    model, x = Model().bfloat16().eval(), torch.randn(rows, 128).bfloat16()
    passes = "matmul-kernels,cuda-graphs{own_memory=true},plan-memory"
    artifact = run_on_artifact(capture(model, (x,), target=f"cuda:{_arch()}"), passes)
    path = cpp_wrapper.build(artifact, tmp_path / "model.so", CppOptions(runtime="native"))
    call, model, x = cpp_wrapper.load(path), model.cuda(), x.cuda()
    with torch.no_grad():
        for _ in range(4):
            x = x + 0.25
            torch.testing.assert_close(call(x), model(x), rtol=5e-2, atol=5e-2)
