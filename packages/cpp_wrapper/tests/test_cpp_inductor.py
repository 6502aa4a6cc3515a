"""Inductor's own kernels, built and launched by us: Inductor generates, ours compiles, eager judges."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import pytest
import torch
from torch._inductor import config
from torch._inductor.async_compile import AsyncCompile
from torch._inductor.cpu_vec_isa import pick_vec_isa

from cpp_wrapper import CppOptions, LaunchError
from wrapper_ir.kernels import Access, CppKernel, KernelParam, ParamKind
from wrapper_ir.program import Target
from wrapper_ir.protocols import LoadedKernel
from wrapper_ir.types import DType

if TYPE_CHECKING:
    from packages.cpp_wrapper.tests.conftest import Bench

C_TYPES = {
    "float": DType.F32, "double": DType.F64, "at::BFloat16": DType.BF16, "at::Half": DType.F16,
    "int64_t": DType.I64, "int32_t": DType.I32, "int8_t": DType.I8, "uint8_t": DType.U8, "bool": DType.BOOL,
}  # fmt: skip


def host_isa() -> tuple[str, ...]:
    return tuple(str(pick_vec_isa()).split())


def parse_param(index: int, declared: str) -> KernelParam:
    c_type = declared.removeprefix("const ").rstrip("*").strip()
    if not declared.endswith("*"):
        return KernelParam(name=f"p{index}", kind=ParamKind.SCALAR, dtype=C_TYPES[c_type])
    access = Access.READ if declared.startswith("const ") else Access.READWRITE
    return KernelParam(name=f"p{index}", kind=ParamKind.POINTER, dtype=C_TYPES[c_type], access=access)


class Recorder:
    """Stands in for Inductor's compiler: collects kernels, and compiles them all at the first launch."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.kernels: list[CppKernel] = []
        self.loaded: dict[str, LoadedKernel] = {}

    def cpp_pybinding(self, argtypes: Sequence[str], source_code: str) -> LoadedKernel:
        name = f"kernel_{len(self.kernels)}"
        params = tuple(parse_param(i, text) for i, text in enumerate(argtypes))
        self.kernels.append(
            CppKernel(name=name, params=params, source=source_code, entry="kernel", isa=host_isa())
        )
        return lambda *args: self.launch(name, *args)

    def launch(self, name: str, *args: object) -> None:
        if name not in self.loaded:
            self.loaded |= self.bench.runtime().load_all(self.kernels, Target())
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
    """Vectorised maths, Welford, masked tails, reductions, integer, half and bool types, an index kernel."""
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


def test_generated_kernels_match_eager(recorder: Recorder) -> None:
    """Odd sizes, so that vector loops have tails; dynamic, so that sizes travel as scalars."""
    before = len(recorder.bench.kernel_runs())
    with config.patch(fx_graph_cache=False), torch.no_grad():
        compiled = torch.compile(block, dynamic=True)
        compare(compiled, *inputs(37, 67))
        compare(compiled, *inputs(5, 130))
    assert len(recorder.kernels) >= 1
    assert any(p.kind is ParamKind.SCALAR for k in recorder.kernels for p in k.params)
    assert all("cpp_prefix.h" in k.source for k in recorder.kernels)
    assert len(recorder.bench.kernel_runs()) == before + 1, "all kernels of the program in one compiler run"


PREFIX = '#include <torch/csrc/inductor/cpp_prefix.h>\nextern "C" void kernel('
DIVIDE = """const int64_t* in0, int64_t* out0)
{
    std::atomic<int> inductor_cpu_integer_div_error{0};
    inductor_cpu_integer_div_error_flag = &inductor_cpu_integer_div_error;
    out0[0] = floor_divide_integral(in0[0], in0[1]);
    inductor_cpu_integer_div_error_flag = nullptr;
    inductor_cpu_throw_if_integer_div_error(inductor_cpu_integer_div_error);
}
"""
EXP = """const float* in0, float* out0)
{
    using V = at::vec::Vectorized<float>;
    V::loadu(in0).exp().store(out0);
}
"""


def prefixed(name: str, body: str, dtype: DType, isa: tuple[str, ...]) -> CppKernel:
    pointer = ParamKind.POINTER
    params = (
        KernelParam(name="in0", kind=pointer, dtype=dtype, access=Access.READ),
        KernelParam(name="out0", kind=pointer, dtype=dtype, access=Access.WRITE),
    )
    assert re.match(r"const \w+\* in0", body)
    return CppKernel(name=name, params=params, source=PREFIX + body, entry="kernel", isa=isa)


def test_precompiled_header(bench: Bench) -> None:
    """Made at the first build when asked to, used by the next, and replaced when damaged. Also: integer division
    by zero, which Inductor's kernels report as a C++ exception, and vector functions of torch's own libraries."""
    runtime = bench.runtime(CppOptions(precompile_after=0, opt_level=1))
    divide = runtime.load(prefixed("divide", DIVIDE, DType.I64, host_isa()), Target())
    (header,) = bench.settings.cache_dir.glob("cpp/*/header/*.gch")
    assert len(bench.kernel_runs()) == 2
    assert "-x c++-header" in bench.kernel_runs()[0]
    assert "-include" in bench.kernel_runs()[1]

    out = torch.empty(1, dtype=torch.int64)
    divide(torch.tensor([-7, 2]), out)
    assert out.item() == -4
    with pytest.raises(LaunchError, match=r"CPP406.*'divide' failed(.|\n)*ZeroDivisionError"):
        divide(torch.tensor([1, 0]), out)

    with header.open("r+b") as file:
        file.truncate(header.stat().st_size // 2)
    exp = runtime.load(prefixed("exp", EXP, DType.F32, host_isa()), Target())
    x, y = torch.randn(16), torch.empty(16)
    exp(x, y)
    lanes = 16 if "avx512" in host_isa() else 8
    torch.testing.assert_close(y[:lanes], x[:lanes].exp())
