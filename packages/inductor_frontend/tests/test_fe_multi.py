"""Several kernels for one computation, captured as a multi-kernel that lists its variants."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch._inductor import config as inductor_config

from inductor_frontend import CaptureOptions, capture
from tests.common import zoo
from wrapper_ir import ir
from wrapper_ir.json import from_json, to_json
from wrapper_ir.text import parse_program, print_program

pytest.importorskip("triton", reason="Inductor writes Triton kernels only where triton is installed")

OPTIONS = CaptureOptions(multi_kernels=True)


# Any: what models return
def offline(model: Callable[..., Any], *args: torch.Tensor, options: CaptureOptions = OPTIONS) -> ir.Program:
    return capture(model, args, target="cuda:sm_90", options=options).program


def multis(program: ir.Program) -> list[ir.MultiKernel]:
    return [k for k in program.kernels if isinstance(k, ir.MultiKernel)]


def inner(program: ir.Program, multi: ir.MultiKernel) -> list[ir.TritonKernel]:
    by_name = {k.name: k for k in program.kernels}
    variants = [by_name[v.kernel] for v in multi.variants]
    assert all(isinstance(k, ir.TritonKernel) for k in variants)
    return [k for k in variants if isinstance(k, ir.TritonKernel)]


def test_reductions_that_loop_and_that_do_not() -> None:
    program = offline(lambda x: x.softmax(-1), torch.randn(8, 2000))
    (multi,) = multis(program)
    assert multi.choice is ir.Choice.MEASURE
    assert [k.heuristic for k in inner(program, multi)] == ["reduction", "persistent_reduction"]
    assert [v.args for v in multi.variants] == [(0, 1, 2, 3)] * 2
    assert [p.access for p in multi.params] == [
        ir.Access.READ,
        ir.Access.WRITE,
        ir.Access.NONE,
        ir.Access.NONE,
    ]
    (launch,) = program.main.ops_of(ir.Launch)
    assert launch.kernel == multi.name
    assert len(launch.extents) == 2


def test_only_where_asked_for() -> None:
    program = offline(lambda x: x.softmax(-1), torch.randn(8, 2000), options=CaptureOptions())
    with inductor_config.patch({"triton.multi_kernel": 1}):
        again = offline(lambda x: x.softmax(-1), torch.randn(8, 2000), options=CaptureOptions())
    assert not multis(program)
    assert program == again


def test_scratch_memory_that_one_of_them_needs() -> None:
    """Checks a cooperative variant with semaphores in scratch memory, which is freed in reverse order."""
    with inductor_config.patch({"triton.force_cooperative_reductions": True}):
        program = offline(lambda x: x.sum(-1), torch.randn(4, 4000))
    (multi,) = multis(program)
    kernels = inner(program, multi)
    assert {k.cooperative for k in kernels} == {True, False}
    scratch = [
        op
        for op in program.main.body
        if isinstance(op, ir.AllocStorage) and op.purpose is ir.AllocPurpose.WORKSPACE
    ]
    (launch,) = program.main.ops_of(ir.Launch)
    assert len(scratch) == 2
    assert [op.storage for op in program.main.ops_of(ir.Free)] == [op.result for op in reversed(scratch)]
    assert len(launch.args) == len(multi.params) > 4


def test_branches_share_what_they_choose_from() -> None:
    def model(x: torch.Tensor) -> Any:  # Any: torch.cond's result
        return torch.cond(x.sum() > 0, lambda y: y.softmax(-1), lambda y: (y * 2).softmax(-1), (x,))

    program = offline(model, torch.randn(8, 2000))
    names = [m.name for m in multis(program)]
    assert len(names) == len(set(names)) >= 2


def test_a_transformer() -> None:
    case = zoo.gpt2(layers=1)
    program = capture(case.model, case.args, case.kwargs, target="cuda:sm_90", options=OPTIONS).program
    groups = multis(program)
    assert groups
    assert {len(m.variants) for m in groups} == {2}
    text = print_program(program)
    assert print_program(parse_program(text)) == text
    assert from_json(to_json(program)) == program
