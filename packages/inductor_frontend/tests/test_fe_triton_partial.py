"""Reductions along rows and along columns in one kernel, which returns partial results of the columns."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch._inductor import config as inductor_config

from inductor_frontend import capture
from wrapper_ir import ir, parse_program, print_program, verify
from wrapper_ir.artifact import bare_artifact
from wrapper_ir.plugins.registry import machine
from wrapper_ir_runtime.interp import run

pytest.importorskip("triton", reason="Inductor writes Triton kernels only where triton is installed")
pytestmark = pytest.mark.skipif(
    not hasattr(inductor_config.triton, "mix_order_reduction_non_strict_mode"),
    reason="this torch has no such reductions of small tensors",
)
Model = Callable[..., tuple[Tensor, ...]]


def sums(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    return (x * y).sum(-1), (x * y).sum(0), x.sum(0)


def kept(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    """Returns a result with its reduced dimension, and one that is used further."""
    return (x * y).sum(-1), (x * y).sum(0, keepdim=True), y.sum(0) * 2 + 1


def matmuls(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    return (x * y).sum(-1), (x * y).prod(0)


def captured(model: Model, *args: Tensor, dynamic: bool = False) -> ir.Program:
    shapes = ({0: torch.export.Dim("rows", min=2)},) * len(args) if dynamic else None
    with inductor_config.patch({"triton.mix_order_reduction_non_strict_mode": True}):
        return capture(model, args, target="cuda:sm_90", dynamic_shapes=shapes).program


def example(rows: int = 256, dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(rows)
    x, y = (torch.randn(rows, 32, generator=generator) / 4 + 1 for _ in range(2))
    return x.to(dtype), y.to(dtype)


def on_cpu(program: ir.Program, args: tuple[Tensor, ...]) -> tuple[object, ...]:
    """Returns the program's results with the CPU in place of its GPU, and its kernels in Triton's
    interpreter."""
    text = print_program(program).replace('target cuda:0 arch "sm_90"', "target cpu").replace(" cuda:0", "")
    there = parse_program(text)
    verify(there)
    return run(bare_artifact(there), list(args), machine("torch"))


def test_what_a_program_says() -> None:
    program = captured(sums, *example())
    [kernel] = program.kernels
    assert isinstance(kernel, ir.TritonKernel)
    assert "RSPLIT_SIZE" in dict(kernel.configs[0].meta)
    assert {p.name: p.access for p in kernel.params}["ws_ptr"] is ir.Access.WRITE
    [scratch] = (
        op
        for op in program.main.body
        if isinstance(op, ir.AllocStorage) and op.purpose is ir.AllocPurpose.WORKSPACE
    )
    [launch] = program.main.ops_of(ir.Launch)
    calls = [op.target for op in program.main.ops_of(ir.CallExtern)]
    assert calls == ["aten::sum.IntList_out"] * 2
    assert parse_program(print_program(program)) == program
    assert launch.args
    assert scratch.prov.nodes


@pytest.mark.parametrize("model", [sums, kept, matmuls])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_results(model: Model, dtype: torch.dtype) -> None:
    args = example(dtype=dtype) if model is not matmuls else example(16, dtype)
    program = captured(model, *args)
    assert len([k for k in program.kernels if "RSPLIT_SIZE" in str(k)]) == 1
    close = 1e-4 if dtype is torch.float32 else 2e-2
    for got, want in zip(on_cpu(program, args), model(*args), strict=True):
        assert isinstance(got, Tensor)
        torch.testing.assert_close(got, want, rtol=close, atol=close)


def test_dynamic_rows() -> None:
    """The number of partial results depends on the rows of each call."""
    program = captured(sums, *example(), dynamic=True)
    for rows in (64, 250, 300):
        args = example(rows)
        for got, want in zip(on_cpu(program, args), sums(*args), strict=True):
            assert isinstance(got, Tensor)
            torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-4)
