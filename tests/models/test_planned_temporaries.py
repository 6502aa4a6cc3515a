"""The allocator's peak in a call of a model with convolutions is at most the plan's, including temporaries."""

from __future__ import annotations

import dataclasses
from functools import partial

import pytest
import torch

import py_wrapper
from inductor_frontend import capture
from tests.common.compare import peak_bytes
from wrapper_ir.analysis.stats import program_stats
from wrapper_ir_passes import MEMORY_PASSES, run_pipeline


@pytest.mark.slow
def test_convnext_holds_what_the_plan_says() -> None:
    from transformers import ConvNextConfig, ConvNextModel

    torch.manual_seed(0)
    config = ConvNextConfig(image_size=64, hidden_sizes=[16, 32, 64, 64], depths=[2, 2, 2, 2])
    model, images = ConvNextModel(config).eval(), torch.randn(2, 3, 64, 64)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch.no_grad():
            artifact = capture(model, (images,))
            planned = dataclasses.replace(artifact, program=run_pipeline(artifact.program, MEMORY_PASSES))
            call = py_wrapper.compile(planned)
            call(images)
            assert peak_bytes(partial(call, images)) <= program_stats(planned.program).memory.peak
    finally:
        torch.set_num_threads(threads)
