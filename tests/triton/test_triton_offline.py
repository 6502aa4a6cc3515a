"""From a model to machine code for a GPU that is not here: capture, then compile every kernel."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn
from torch._inductor import config as inductor_config

from inductor_frontend import CaptureOptions, capture
from tests.common import zoo
from tests.common.torch_versions import STORES
from wrapper_ir import ir

pytest.importorskip("triton", reason="kernels are compiled by triton")

from triton_runtime.compile.compiler import compile_job
from triton_runtime.compile.job import make_job


@pytest.mark.slow
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_every_kernel_compiles(arch: str, tmp_path: Path) -> None:
    case = zoo.gpt2(layers=1)
    program = capture(case.model, case.args, case.kwargs, target=f"cuda:{arch}").program
    assert program.kernels
    for kernel in program.kernels:
        assert isinstance(kernel, ir.TritonKernel)
        job = make_job(kernel, kernel.configs[0], program.target, str(tmp_path))
        assert b"\x7fELF" in compile_job(job.to_bytes())


@pytest.mark.parametrize(
    ("model", "x"),
    [
        (nn.Sequential(nn.Linear(64, 96), nn.GELU()).eval(), torch.randn(50, 64).bfloat16()),
        (nn.Conv2d(4, 8, 3).eval(), torch.randn(2, 4, 9, 9).bfloat16()),
    ],
    ids=["matmul", "convolution"],
)
def test_templates_compile(model: nn.Module, x: torch.Tensor, tmp_path: Path) -> None:
    """The first and the last config of each."""
    options = CaptureOptions(matmuls="templates")
    program = capture(model.bfloat16(), (x,), target="cuda:sm_90", options=options).program
    found = [k for k in program.kernels if isinstance(k, ir.TritonKernel) and k.heuristic == "template"]
    assert found
    for kernel in found:
        for config in (kernel.configs[0], kernel.configs[-1]):
            job = make_job(kernel, config, program.target, str(tmp_path))
            assert b"\x7fELF" in compile_job(job.to_bytes())


@pytest.mark.slow
@pytest.mark.parametrize("store", STORES)
def test_templates_with_descriptors_compile(store: bool, tmp_path: Path) -> None:
    """Loads, and stores, through descriptors that the kernel creates."""
    given = {"triton.enable_persistent_tma_matmul": True, "triton.enable_template_tma_store": store}
    x, y = torch.randn(256, 128).bfloat16(), torch.randn(128, 256).bfloat16()
    with inductor_config.patch(given):
        options = CaptureOptions(matmuls="templates")
        program = capture(lambda x, y: (x @ y).relu(), (x, y), target="cuda:sm_90", options=options).program
    [kernel] = (
        k for k in program.kernels if isinstance(k, ir.TritonKernel) and "make_tensor_descriptor" in k.source
    )
    for kind in (kernel.configs[0], kernel.configs[-1]):
        job = make_job(kernel, kind, program.target, str(tmp_path))
        assert b"\x7fELF" in compile_job(job.to_bytes())
