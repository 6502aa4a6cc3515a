"""From a model to machine code for a GPU that is not here: capture, then compile every kernel."""

from __future__ import annotations

from pathlib import Path

import pytest

from inductor_frontend import capture
from tests import zoo
from wrapper_ir.kernels import TritonKernel

pytest.importorskip("triton", reason="kernels are compiled by triton")

from triton_runtime.compile import compile_job, make_job


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_every_kernel_compiles(arch: str, tmp_path: Path) -> None:
    case = zoo.gpt2(layers=1)
    program = capture(case.model, case.args, case.kwargs, target=f"cuda:{arch}").program
    assert program.kernels
    for kernel in program.kernels:
        assert isinstance(kernel, TritonKernel)
        job = make_job(kernel, kernel.configs[0], program.target, str(tmp_path))
        assert b"\x7fELF" in compile_job(job.to_bytes())
