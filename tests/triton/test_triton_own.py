"""Triton kernels of a model's own, of each kind: captured, compiled for a GPU that is not here, run on CPU
tensors and on a device, against torch's operators.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest
import torch
from torch._higher_order_ops import triton_kernel_wrap

import py_wrapper
from inductor_frontend import CaptureOptions, ConversionError, HookError, capture
from py_wrapper import TORCH_MACHINE
from wrapper_ir import ir, parse_program, print_program
from wrapper_ir.expr import Expr
from wrapper_ir_runtime.interp import call

pytest.importorskip("triton", reason="the kernels are Triton's")

from triton.tools.tensor_descriptor import TensorDescriptor

from tests.triton.own_kernels import ITEMS, KINDS, described, double
from triton_runtime.compile.compiler import compile_job
from triton_runtime.compile.job import make_job

SIZES = [(64, 96), (50, 20), (40, 32)]


def example(sizes: tuple[int, int]) -> torch.Tensor:
    return torch.randn(sizes, generator=torch.Generator().manual_seed(sum(sizes)))


def close(found: Any, wanted: Any) -> None:  # Any: a tensor or several
    torch.testing.assert_close(found, wanted, rtol=1e-6, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_in_the_interpreter(kind: str, sizes: tuple[int, int]) -> None:
    x = example(sizes)
    artifact = capture(KINDS[kind].model, (x,), options=CaptureOptions(cpu_kernels="triton"))
    assert any(isinstance(k, ir.TritonKernel) and k.heuristic == "user" for k in artifact.program.kernels)
    close(call(artifact, TORCH_MACHINE, (x,)), KINDS[kind].expected(x))
    close(py_wrapper.compile(artifact)(x), KINDS[kind].expected(x))


@pytest.mark.parametrize("kind", KINDS)
def test_for_a_device_that_is_not_here(kind: str, tmp_path: Path) -> None:
    program = capture(KINDS[kind].model, (example(SIZES[0]),), target="cuda:sm_90").program
    assert parse_program(print_program(program)) == program
    for kernel in program.kernels:
        assert isinstance(kernel, ir.TritonKernel)
        job = make_job(kernel, kernel.configs[-1], program.target, str(tmp_path))
        assert b"\x7fELF" in compile_job(job.to_bytes())


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_descriptors_say_their_blocks_and_what_is_written(arch: str) -> None:
    """Also for GPUs that have no hardware for them, where Triton computes the addresses itself."""
    program = capture(KINDS["descriptors"].model, (example(SIZES[0]),), target=f"cuda:{arch}").program
    [kernel] = (k for k in program.kernels if isinstance(k, ir.TritonKernel) and k.heuristic == "user")
    assert [(p.kind, p.access, [str(b) for b in p.block]) for p in kernel.params] == [
        (ir.ParamKind.DESCRIPTOR, ir.Access.READ, ["32", "16"]),
        (ir.ParamKind.DESCRIPTOR, ir.Access.READWRITE, ["32", "16"]),
    ]


def test_heuristics_become_constants() -> None:
    program = capture(KINDS["heuristics"].model, (example((50, 20)),), target="cuda:sm_90").program
    [kernel] = program.kernels
    assert isinstance(kernel, ir.TritonKernel)
    assert dict(kernel.constants) == {"BLOCK": 128, "EVEN": False}
    program = capture(KINDS["heuristics_of_configs"].model, (example((50, 20)),), target="cuda:sm_90").program
    [kernel] = (k for k in program.kernels if isinstance(k, ir.TritonKernel) and k.heuristic == "user")
    assert [dict(c.meta) for c in kernel.configs] == [
        {"BLOCK": 64, "EVEN": False},
        {"BLOCK": 128, "EVEN": False},
    ]


COUNTS = [40, 1, 1000]


@pytest.mark.parametrize("kind", ITEMS)
def test_numbers_that_a_tensor_holds(kind: str, tmp_path: Path) -> None:
    """Each call reads them anew, also those that are 1 or multiples of 16, which kernels may rely on."""
    x = example((50, 20))
    options = CaptureOptions(cpu_kernels="triton")
    artifact = capture(ITEMS[kind].model, (x, torch.tensor(500)), options=options)
    compiled = py_wrapper.compile(artifact)
    for count in COUNTS:
        args = (x, torch.tensor(count))
        close(call(artifact, TORCH_MACHINE, args), ITEMS[kind].expected(*args))
        close(compiled(*args), ITEMS[kind].expected(*args))
    program = capture(ITEMS[kind].model, (x, torch.tensor(500)), target="cuda:sm_90").program
    assert parse_program(print_program(program)) == program
    launches = [op for op in program.main.body if isinstance(op, ir.Launch)]
    given = {
        s for op in launches for e in (*op.args, *op.grid) if isinstance(e, Expr) for s in e.free_symbols
    }
    assert any(s.startswith(("u", "zuf")) for s in given), "no launch is given what was read"
    for kernel in program.kernels:
        assert isinstance(kernel, ir.TritonKernel)
        job = make_job(kernel, kernel.configs[-1], program.target, str(tmp_path))
        assert b"\x7fELF" in compile_job(job.to_bytes())


def test_other_padding_than_zeros_is_refused() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(x)
        source = TensorDescriptor.from_tensor(x, [32, 16], padding="nan")
        described[(1, 1)](source, TensorDescriptor.from_tensor(out, [32, 16]), ROWS=32, COLUMNS=16)
        return out

    with pytest.raises(ConversionError, match="descriptor x pads with nan") as caught:
        capture(model, (example(SIZES[0]),), target="cuda:sm_90")
    assert caught.value.code == "FE303"


def test_descriptors_of_old_are_refused() -> None:
    """Triton no longer creates such descriptors; a graph from elsewhere may still name them."""
    assert importlib.util.find_spec("triton.tools.experimental_descriptor") is None
    table = triton_kernel_wrap.kernel_side_table

    def model(x: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(x)
        block = triton_kernel_wrap.create_tma_experimental_metadata([64, 96], [32, 16], x.element_size())
        triton_kernel_wrap.triton_kernel_wrapper_mutation(
            kernel_idx=table.add_kernel(described),
            constant_args_idx=table.add_constant_args({"ROWS": 32, "COLUMNS": 16}),
            grid=[(2, 6, 1)],
            tma_descriptor_metadata={"x": block, "out": block},
            kwargs={"x": x, "out": out},
        )
        return out

    with pytest.raises(HookError, match="TMADescriptorExperimental") as caught:
        capture(model, (example((64, 96)),), target="cuda:sm_90")
    assert caught.value.code == "FE203"
    assert "use TensorDescriptor" in caught.value.hint


def test_tensors_in_tuples_are_refused() -> None:
    """Torch would lose the kernel's writes to them."""

    def model(x: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(x)
        double[(1,)]((x, out), out, x.numel(), BLOCK=64)
        return out

    with pytest.raises(ConversionError, match="kernel double is a tuple") as caught:
        capture(model, (example(SIZES[0]),), target="cuda:sm_90")
    assert caught.value.code == "FE303"


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="kernels run on a CUDA device, and there is none")
@pytest.mark.parametrize("kind", KINDS)
def test_on_a_device(kind: str) -> None:
    major, minor = torch.cuda.get_device_capability()
    for sizes in SIZES:
        x = example(sizes)
        artifact = capture(KINDS[kind].model, (x,), target=f"cuda:sm_{major}{minor}")
        there = x.cuda()
        close(py_wrapper.compile(artifact)(there), KINDS[kind].expected(there))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="kernels run on a CUDA device, and there is none")
@pytest.mark.parametrize("kind", ITEMS)
def test_numbers_of_a_tensor_on_a_device(kind: str) -> None:
    major, minor = torch.cuda.get_device_capability()
    # multiplications and sums are exact, fused into one operation or not
    x = (example((50, 20)) * 8).round() / 8
    artifact = capture(ITEMS[kind].model, (x, torch.tensor(500)), target=f"cuda:sm_{major}{minor}")
    compiled, there = py_wrapper.compile(artifact), x.cuda()
    for count in COUNTS:
        args = (there, torch.tensor(count, device="cuda"))
        close(compiled(*args), ITEMS[kind].expected(*args))
