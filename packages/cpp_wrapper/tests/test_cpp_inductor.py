"""Inductor's kernels, built and launched by the runtime, and compared with eager mode."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import pytest
import torch
from torch._inductor import config
from torch._inductor.async_compile import AsyncCompile
from torch._inductor.codegen import cpp as codegen
from torch._inductor.cpu_vec_isa import pick_vec_isa

from cpp_wrapper import CppOptions, LaunchError
from wrapper_ir import ir
from wrapper_ir.errors import StoreWarning
from wrapper_ir.plugins.protocols import LoadedKernel

if TYPE_CHECKING:
    from packages.cpp_wrapper.tests.conftest import Bench

C_TYPES = {
    "float": ir.DType.F32, "double": ir.DType.F64, "at::BFloat16": ir.DType.BF16, "at::Half": ir.DType.F16,
    "int64_t": ir.DType.I64, "int32_t": ir.DType.I32, "int8_t": ir.DType.I8, "uint8_t": ir.DType.U8, "bool": ir.DType.BOOL,
}  # fmt: skip


def host_isa() -> tuple[str, ...]:
    return tuple(str(pick_vec_isa()).split())


def parse_param(index: int, declared: str) -> ir.KernelParam:
    c_type = declared.removeprefix("const ").rstrip("*").strip()
    if not declared.endswith("*"):
        return ir.KernelParam(name=f"p{index}", kind=ir.ParamKind.SCALAR, dtype=C_TYPES[c_type])
    access = ir.Access.READ if declared.startswith("const ") else ir.Access.READWRITE
    return ir.KernelParam(name=f"p{index}", kind=ir.ParamKind.POINTER, dtype=C_TYPES[c_type], access=access)


class Recorder:
    """Stands in for Inductor's compiler: collects kernels, and compiles them all at the first launch."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.kernels: list[ir.CppKernel] = []
        self.loaded: dict[str, LoadedKernel] = {}

    def cpp_pybinding(self, argtypes: Sequence[str], source_code: str) -> LoadedKernel:
        name = f"kernel_{len(self.kernels)}"
        params = tuple(parse_param(i, text) for i, text in enumerate(argtypes))
        self.kernels.append(
            ir.CppKernel(name=name, params=params, source=source_code, entry="kernel", isa=host_isa())
        )
        return lambda *args: self.launch(name, *args)

    def launch(self, name: str, *args: object) -> None:
        if name not in self.loaded:
            self.loaded |= self.bench.runtime().load_all(self.kernels, ir.Target())
        self.loaded[name](*args)


@pytest.fixture
def recorder(shared_bench: Bench, monkeypatch: pytest.MonkeyPatch) -> Recorder:
    torch._dynamo.reset()
    made = Recorder(shared_bench)

    def stand_in(self: AsyncCompile, argtypes: Sequence[str], source_code: str, **_: object) -> LoadedKernel:
        return made.cpp_pybinding(argtypes, source_code)

    monkeypatch.setattr(AsyncCompile, "cpp_pybinding", stand_in)
    return made


def block(x: torch.Tensor, w: torch.Tensor, mask: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Vectorised math, Welford, masked tails, reductions, integer, half and bool types, an index kernel."""
    y = torch.nn.functional.gelu(x @ w)
    normed = torch.nn.functional.layer_norm(y, (y.shape[-1],))
    probs = torch.where(mask, normed, -torch.inf).softmax(-1)
    picked = probs[:, torch.arange(y.shape[-1] - 1, -1, -1)]
    return (
        normed.to(torch.bfloat16),
        probs.sum(0).tanh(),
        (y > 0).sum(),
        picked.half(),
        y.argmax(-1),
        mask.logical_not(),
    )


def inputs(rows: int, columns: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    torch.manual_seed(rows)
    mask = torch.rand(rows, columns) > 0.3
    mask[:, 0] = True
    return torch.randn(rows, columns), torch.randn(columns, columns) / columns**0.5, mask


def compare(compiled: Callable[..., tuple[torch.Tensor, ...]], *args: torch.Tensor) -> None:
    for ours, eager in zip(compiled(*args), block(*args), strict=True):
        assert ours.dtype == eager.dtype
        torch.testing.assert_close(ours, eager)


@pytest.mark.slow
def test_generated_kernels_match_eager(recorder: Recorder) -> None:
    """Odd sizes, so that vector loops have tails; dynamic, so that sizes travel as scalars."""
    before = len(recorder.bench.kernel_runs())
    with config.patch(fx_graph_cache=False), torch.no_grad():
        compiled = torch.compile(block, dynamic=True)
        compare(compiled, *inputs(37, 67))
        compare(compiled, *inputs(5, 130))
    assert len(recorder.kernels) >= 1
    assert any(p.kind is ir.ParamKind.SCALAR for k in recorder.kernels for p in k.params)
    assert all("cpp_prefix.h" in k.source for k in recorder.kernels)
    assert len(recorder.bench.kernel_runs()) == before + 1, "all kernels of the program in one compiler run"


# Newer versions of Inductor generate kernels that report a division by zero; older ones let the process die of it.
CHECKS_DIVISION = "integer_div_error" in inspect.getsource(codegen)


@pytest.mark.skipif(not CHECKS_DIVISION, reason="this torch generates divisions without a check")
def test_division_by_zero_is_a_launch_error(recorder: Recorder) -> None:
    """Inductor's kernels report it as a C++ exception."""
    top, bottom = torch.tensor([-7, 8, 9]), torch.tensor([2, 3, -2])
    with config.patch(fx_graph_cache=False):
        divide = torch.compile(torch.floor_divide)
        assert divide(top, bottom).tolist() == [-4, 2, -5]
        with pytest.raises(LaunchError, match=r"CPP406.*'kernel_0' failed(.|\n)*ZeroDivisionError"):
            divide(top, torch.tensor([2, 0, -2]))


KERNEL = """#include <torch/csrc/inductor/cpp_prefix.h>
extern "C" void kernel(const float* in0, float* out0)
{
    using V = at::vec::Vectorized<float>;
    V::loadu(in0).%s().store(out0);
}
"""


def vector_kernel(function: str) -> ir.CppKernel:
    """One vector of float32 through a vector function of torch's own libraries."""
    params = tuple(
        ir.KernelParam(name=name, kind=ir.ParamKind.POINTER, dtype=ir.DType.F32, access=access)
        for name, access in (("in0", ir.Access.READ), ("out0", ir.Access.WRITE))
    )
    return ir.CppKernel(
        name=function, params=params, source=KERNEL % function, entry="kernel", isa=host_isa()
    )


@pytest.mark.slow
def test_precompiled_header(bench: Bench) -> None:
    """Created on request by the first build, used by the next, and replaced if damaged."""
    runtime = bench.runtime(CppOptions(precompile_after=0, opt_level=1))
    lanes = 16 if "avx512" in host_isa() else 8
    x, y = torch.rand(16), torch.empty(16)

    runtime.load(vector_kernel("log"), ir.Target())(x, y)
    torch.testing.assert_close(y[:lanes], x[:lanes].log())
    (header,) = bench.cache_folder.glob("1/cpp-headers/*/*/*.gch")
    assert len(bench.kernel_runs()) == 2
    assert "-x c++-header" in bench.kernel_runs()[0]
    assert "-include" in bench.kernel_runs()[1]

    with header.open("r+b") as file:
        file.truncate(header.stat().st_size // 2)
    with pytest.warns(StoreWarning, match=r"WIR254.*gch"):
        runtime.load(vector_kernel("exp"), ir.Target())(x, y)
    torch.testing.assert_close(y[:lanes], x[:lanes].exp())
