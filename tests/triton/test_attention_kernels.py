"""Attention by kernels of the program: Triton's interpreter computes what torch does, and the kernels compile
for GPUs that are absent.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from inductor_frontend import capture
from py_wrapper import TORCH_MACHINE
from tests.triton.attention_programs import Case, expected, inputs, with_kernels
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
    Case(),
    Case(rows=33, keys=65, width=24, value_width=40, scale=0.3),
    Case(rows=33, keys=65, layout="rows", batch=2),
    Case(rows=1, keys=1, width=1),
    Case(rows=50, keys=20, causal=True),
    Case(rows=20, keys=50, causal=True),
    Case(rows=40, keys=40, causal=True, heads=6, operator="cudnn", dtype=BRAIN, layout="rows"),
    Case(rows=40, keys=40, width=32, causal=True, layout="packed", dtype=HALF, operator="flash"),
    Case(rows=9, keys=70, heads=6, operator="flash", dtype=HALF, batch=2),
    Case(rows=20, keys=70, mask="add", batch=2),
    Case(rows=20, keys=70, mask="rows", operator="cudnn", dtype=BRAIN, heads=4),
    Case(rows=20, keys=70, mask="keys", dtype=HALF),
    Case(rows=20, keys=70, mask="hidden"),
    Case(rows=20, keys=70, mask="lowest"),
    Case(rows=20, keys=20, mask="add", causal=True),
    Case(rows=1, keys=300, mask="keys", heads=8, operator="cudnn", dtype=BRAIN, width=32),
    Case(rows=3, keys=520, heads=8, batch=2),
    Case(rows=2, keys=300, mask="hidden"),
    Case(rows=150, keys=150, causal=True, heads=2),
    Case(rows=9, keys=33, batch=2, dynamic=True),
    Case(rows=40, keys=33, batch=2, dynamic=True, layout="rows", causal=True),
    Case(rows=3, keys=0),
    Case(rows=0, keys=3),
    Case(batch=0),
)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_in_the_interpreter(case: Case) -> None:
    program = with_kernels(case)
    assert not program.externs, "the call is replaced"
    on_cpu = run_pipeline(program, "move-device{to=cpu}")
    tensors = inputs(case)
    [result] = run(bare_artifact(on_cpu), list(tensors), TORCH_MACHINE)
    tolerance = {torch.float32: 2e-6, HALF: 2e-3, BRAIN: 2e-2}[case.dtype]
    torch.testing.assert_close(result, expected(case, tensors), rtol=tolerance, atol=tolerance)


class Model(nn.Module):
    """Two layers of attention, whose 4 heads share 2 of keys and values."""

    def __init__(self) -> None:
        super().__init__()
        self.project, self.out = nn.Linear(64, 128), nn.Linear(64, 64)

    def forward(self, x: Tensor) -> Tensor:
        for _ in range(2):
            parts = self.project(x).split((64, 32, 32), dim=-1)
            q, k, v = (part.unflatten(-1, (-1, 16)).transpose(-3, -2) for part in parts)
            found = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
            x = self.out(found.transpose(-3, -2).flatten(-2))
        return x


@pytest.mark.slow
def test_a_captured_model() -> None:
    """Captured for a GPU, with nothing left that allocates; then moved to the CPU."""
    torch.manual_seed(0)
    model, x = Model().eval().bfloat16(), torch.randn(1, 24, 64).bfloat16()
    passes = "attention-kernels,cuda-graphs{own_memory=true},plan-memory"
    artifact = run_on_artifact(capture(model, (x,), target="cuda:sm_90"), passes)
    assert not any("scaled_dot_product" in e.name for e in artifact.program.externs)
    assert artifact.signature.random == ()
    [graph] = [f for f in artifact.program.functions if f.replayable]
    assert len(artifact.program.main.body) < 10 < len(graph.body)
    [result] = run(run_on_artifact(artifact, "move-device{to=cpu}"), [x], TORCH_MACHINE)
    torch.testing.assert_close(result, model(x), rtol=3e-2, atol=3e-2)


@pytest.mark.slow
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
@pytest.mark.parametrize(
    "case",
    [
        Case(rows=64, keys=64, width=64, heads=12, kv_heads=12, dtype=BRAIN, operator="cudnn", mask="rows"),
        Case(rows=1024, keys=1024, width=128, heads=12, kv_heads=12, dtype=HALF, causal=True),
        Case(rows=1, keys=512, width=64, heads=32, kv_heads=8, dtype=BRAIN, operator="cudnn", mask="keys"),
        Case(rows=64, keys=64, width=256, dtype=BRAIN, operator="flash"),
        Case(rows=33, keys=65, width=64, mask="rows"),
        Case(rows=9, keys=33, dynamic=True, causal=True),
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
