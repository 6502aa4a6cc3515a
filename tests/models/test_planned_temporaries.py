"""The allocator's peak in a call is at most the plan's, including temporaries, and at most Inductor's."""

from __future__ import annotations

import pytest
import torch

from tools.bench.bench_memory import CASES, measure_ours, measure_stock
from wrapper_ir_passes.analysis.stats import program_stats
from wrapper_ir_tools.report import memory_report


@pytest.mark.slow
@pytest.mark.parametrize("name", ["convnext", "transformer", "lstm of 2 layers", "bert", "moe"])
def test_models_hold_what_the_plan_says_and_no_more_than_inductor(name: str) -> None:
    case = CASES[name]()
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch.no_grad(), torch._dynamo.config.patch(allow_rnn=True):
            side, _, planned = measure_ours(case)
            assert not memory_report(planned).unknown_temporaries
            assert side.peak <= program_stats(planned).memory.peak
            assert side.peak <= measure_stock(case, pools=False).peak
    finally:
        torch.set_num_threads(threads)
        torch._dynamo.reset()
