"""Matmuls by kernels of the program: Triton's interpreter computes what torch does, and the kernels compile for GPUs
that are absent.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from inductor_frontend import capture
from py_wrapper import TORCH_MACHINE
from tests.triton.matmul_programs import Case, expected, inputs, with_kernels
from wrapper_ir import ir
from wrapper_ir.artifact import bare_artifact
from wrapper_ir_passes import run_pipeline
from wrapper_ir_passes.pipeline import run_on_artifact
from wrapper_ir_runtime.interp import run

pytest.importorskip("triton", reason="kernels are compiled by triton")

from triton_runtime.compile.compiler import compile_job
from triton_runtime.compile.job import make_job

HALF, BRAIN = torch.float16, torch.bfloat16
CASES = (
    Case(rows=33, columns=65, depth=24),
    Case(rows=33, columns=65, depth=40, out=False, bias="columns"),
    Case(rows=64, columns=32, depth=64, dtype=BRAIN, layout="columns", bias="columns"),
    Case(rows=1, columns=1, depth=1),
    Case(rows=1, columns=48, depth=96, dtype=BRAIN),
    Case(rows=1, columns=50, depth=72, dtype=HALF, layout="columns", bias="columns"),
    Case(rows=1, columns=40, depth=1500, layout="window", bias="full", alpha=0.5, beta=2.0),
    Case(rows=5, columns=48, depth=200, dtype=BRAIN, layout="columns"),
    Case(rows=20, columns=24, depth=70, bias="full", alpha=-0.5, beta=0.25),
    Case(rows=20, columns=24, depth=70, bias="rows"),
    Case(rows=20, columns=24, depth=70, bias="one", beta=0.0),
    Case(rows=20, columns=24, depth=70, batch=3),
    Case(rows=1, columns=24, depth=70, batch=3, bias="full", out=False),
    Case(rows=17, columns=24, depth=70, batch=3, layout="columns", bias="full", beta=-1.0),
    Case(rows=16, columns=32, depth=1100, bias="columns", alpha=2.0),
    Case(rows=9, columns=24, depth=70, dynamic=True, bias="columns"),
    Case(rows=9, columns=24, depth=70, dynamic=True, batch=2),
    Case(rows=0, columns=24, depth=70, dynamic=True, bias="columns"),
)  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=str)
def test_against_float64(case: Case) -> None:
    program = with_kernels(case)
    assert not program.externs
    _compare(case, program)


def _compare(case: Case, program: ir.Program) -> None:
    on_cpu = run_pipeline(program, "move-device{to=cpu}")
    tensors = inputs(case)
    [result] = run(bare_artifact(on_cpu), list(tensors), TORCH_MACHINE)
    tolerance = {torch.float32: 2e-5, HALF: 2e-3, BRAIN: 2e-2}[case.dtype]
    torch.testing.assert_close(result, expected(case, tensors), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(
    "case", [c for c in CASES if c.rows > 1][:5] + [c for c in CASES if c.rows == 1][:5], ids=str
)
def test_each_config(case: Case) -> None:
    program = with_kernels(case)
    first, *rest = program.kernels
    assert isinstance(first, ir.TritonKernel)
    assert len(first.configs) > 1
    for config in first.configs[1:]:
        kernels = (dataclasses.replace(first, configs=(config,)), *rest)
        _compare(case, dataclasses.replace(program, kernels=kernels))


def test_parts_of_the_depth_are_added() -> None:
    case = Case(rows=32, columns=16, depth=8192, dtype=BRAIN, bias="columns")
    program = with_kernels(case)
    assert [k.entry for k in program.kernels if isinstance(k, ir.TritonKernel)] == ["matmul", "add_parts"]
    tensors = inputs(case)
    on_cpu = run_pipeline(program, "move-device{to=cpu}")
    results = [run(bare_artifact(on_cpu), list(tensors), TORCH_MACHINE)[0] for _ in range(2)]
    torch.testing.assert_close(results[0], expected(case, tensors), rtol=2e-2, atol=0.5)
    assert torch.equal(*results)


class Model(nn.Module):
    """Layers with and without a bias."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(64, 96), nn.Linear(96, 64, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        sum_: Tensor = x + self.second(torch.relu(self.first(x)))
        return sum_


@pytest.mark.slow
@pytest.mark.parametrize("rows", [1, 24])
def test_a_captured_model(rows: int) -> None:
    """Captured for a GPU, with nothing left that calls cuBLAS; then moved to the CPU."""
    torch.manual_seed(0)
    model, x = Model().eval().bfloat16(), torch.randn(rows, 64).bfloat16()
    passes = "matmul-kernels,cuda-graphs{own_memory=true},plan-memory"
    artifact = run_on_artifact(capture(model, (x,), target="cuda:sm_90"), passes)
    assert not any("mm" in e.name for e in artifact.program.externs)
    pointers = [p for k in artifact.program.kernels if isinstance(k, ir.TritonKernel) for p in k.params]
    assert all(p.divisible == 16 for p in pointers if p.name in ("first", "second", "bias", "out"))
    [result] = run(run_on_artifact(artifact, "move-device{to=cpu}"), [x], TORCH_MACHINE)
    torch.testing.assert_close(result, model(x), rtol=3e-2, atol=3e-2)


@pytest.mark.slow
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
@pytest.mark.parametrize(
    "case",
    [
        Case(rows=64, columns=768, depth=3072, dtype=BRAIN, bias="columns"),
        Case(rows=64, columns=50257, depth=768, dtype=BRAIN, layout="columns"),
        Case(rows=1, columns=768, depth=3072, dtype=BRAIN, bias="columns"),
        Case(rows=1, columns=16384, depth=2048, dtype=HALF, layout="columns"),
        Case(rows=2048, columns=2048, depth=2048, dtype=BRAIN, layout="columns"),
        Case(rows=64, columns=64, depth=256),
        Case(rows=9, columns=24, depth=70, dynamic=True, batch=2, dtype=HALF),
    ],
    ids=str,
)
def test_for_a_device_that_is_not_here(case: Case, arch: str, tmp_path: Path) -> None:
    program = with_kernels(case, arch=arch)
    assert program.kernels
    for kernel in program.kernels:
        assert isinstance(kernel, ir.TritonKernel)
        for config in dict.fromkeys((kernel.configs[0], kernel.configs[-1])):
            job = make_job(kernel, config, program.target, str(tmp_path))
            assert b"\x7fELF" in compile_job(job.to_bytes())
