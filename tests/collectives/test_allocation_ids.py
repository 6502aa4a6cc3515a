"""Ids of group memory, of which a process keeps one piece each: a model's forward and backward and other
models' share none.
"""

from __future__ import annotations

import itertools

import pytest
import torch

from inductor_frontend import CaptureOptions
from inductor_frontend.translate.finish import finish
from tests.collectives.collective_cases import WORLD, fake_group
from tests.common.parallel_models import ParallelMlp
from wrapper_ir import ir, parse_program, print_program
from wrapper_ir.analysis.memo import Analyses
from wrapper_ir.plugins.passes import Pass
from wrapper_ir_passes.collectives.lower_collectives import LowerCollectives
from wrapper_ir_passes.collectives.register_buffers import RegisterBuffers

KINDS = (LowerCollectives(two_shot_all_reduce_threshold_bytes=1 << 30), RegisterBuffers())


@pytest.fixture
def programs(monkeypatch: pytest.MonkeyPatch) -> list[ir.Program]:
    """Returns the compiled programs."""
    made: list[ir.Program] = []

    def record(program: ir.Program, options: CaptureOptions) -> Analyses:
        found = finish(program, options)
        made.append(found.program)
        return found

    monkeypatch.setattr("inductor_frontend.backend.lowered.finish", record)
    return made


def _ids(program: ir.Program, step: Pass) -> list[int]:
    """As they would be on a GPU."""
    on_gpu = parse_program(print_program(program).replace("target cpu", "target cuda:0"))
    types = [op.result.type for op in step.run(on_gpu).ops if isinstance(op, ir.AllocStorage)]
    return [type.space.alloc_id for type in types if type.is_group_memory]


@pytest.mark.slow
def test_no_two_programs_share_one(programs: list[ir.Program]) -> None:
    widths = (8, 16)
    with fake_group():
        for width in widths:
            torch._dynamo.reset()
            run = torch.compile(
                ParallelMlp(2, width, 32, WORLD), backend="wrapper_ir", options={"cache": False}
            )
            run(torch.randn(4, width, requires_grad=True)).sum().backward()
    assert len(programs) == 2 * len(widths)
    for step in KINDS:
        found = [_ids(program, step) for program in programs]
        assert all(found), found
        assert len({*itertools.chain(*found)}) == sum(map(len, found)), found
