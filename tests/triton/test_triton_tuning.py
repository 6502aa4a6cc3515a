"""Real models captured with Triton kernels, reduced to their launches, tuned to the end, and run."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import py_wrapper
from inductor_frontend import CaptureOptions, capture
from py_wrapper import TORCH_MACHINE
from wrapper_ir import ir, verify
from wrapper_ir.artifact import bare_artifact
from wrapper_ir_passes.tuning.tuning_programs import tuning_programs
from wrapper_ir_runtime.interp import example_inputs, run

pytest.importorskip("triton", reason="kernels are interpreted by triton")

from triton_runtime import TritonOptions, TritonRuntime
from triton_runtime.settings import read_settings
from triton_runtime.tune import MeasureOptions, TuneOptions


class Words(nn.Module):
    """Looks words up, normalises, pools by softmax: indices, reductions, pointwise kernels."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(50, 16)
        self.norm = nn.LayerNorm(16)
        self.order: Tensor
        self.register_buffer("order", torch.arange(12).flip(0))

    def forward(self, ids: Tensor) -> Tensor:
        x: Tensor = self.norm(self.words(ids[:, self.order]))
        return (x * x.sum(-1, keepdim=True).softmax(1)).sum(1)


@pytest.mark.slow
def test_a_captured_model_is_tuned_to_the_end(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model, ids = Words().eval(), torch.randint(0, 50, (3, 12))
    artifact = capture(model, (ids,), options=CaptureOptions(cpu_kernels="triton"))
    programs = tuning_programs(artifact.program)
    assert programs
    for one in programs:
        verify(one.program)
        constants = {c.value.name: artifact.constants[c.value.name] for c in one.program.constants}
        reduced = bare_artifact(one.program, constants)
        inputs = example_inputs(one.program, TORCH_MACHINE, 0, {})
        assert run(reduced, [*inputs], TORCH_MACHINE) == ()
        assert py_wrapper.compile(reduced).boxed([*inputs]) == ()

    options = TritonOptions(tune=TuneOptions(measure=MeasureOptions(rounds=2, trial=2)))
    settings = read_settings({"WRAPPER_IR_CACHE_DIR": str(tmp_path)})
    runtime = TritonRuntime(options=options, settings=settings)
    tuned = runtime.tune(artifact, machine=TORCH_MACHINE)
    verify(tuned)
    assert {len(k.configs) for k in tuned.program.kernels if isinstance(k, ir.TritonKernel)} == {1}
    assert not tuning_programs(tuned.program)
    torch.testing.assert_close(py_wrapper.compile(tuned)(ids), model(ids))
