"""Launches: values against eager, every argument that must be refused, threads. One library for the whole file."""

from __future__ import annotations

import gc
import math
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from cpp_wrapper import CppOptions, LaunchError
from cpp_wrapper.kernels.binding import load_launcher
from cpp_wrapper.kernels.source import SCALAR_DTYPES
from cpp_wrapper.kernels.toolchain import find_toolchain
from wrapper_ir import ir
from wrapper_ir.plugins.protocols import LoadedKernel
from wrapper_ir_runtime.cache import open_cache

if TYPE_CHECKING:
    from packages.cpp_wrapper.tests.conftest import Bench

C_NAMES = {
    ir.DType.F64: "double", ir.DType.F32: "float", ir.DType.I64: "int64_t", ir.DType.I32: "int32_t", ir.DType.I16: "int16_t",
    ir.DType.I8: "int8_t", ir.DType.U64: "uint64_t", ir.DType.U32: "uint32_t", ir.DType.U16: "uint16_t", ir.DType.U8: "uint8_t",
    ir.DType.BOOL: "bool",
}  # fmt: skip


def pointer(
    name: str, dtype: ir.DType = ir.DType.F32, access: ir.Access = ir.Access.READWRITE
) -> ir.KernelParam:
    return ir.KernelParam(name=name, kind=ir.ParamKind.POINTER, dtype=dtype, access=access)


def scalar(name: str, dtype: ir.DType = ir.DType.I64) -> ir.KernelParam:
    return ir.KernelParam(name=name, kind=ir.ParamKind.SCALAR, dtype=dtype)


def kernel(name: str, source: str, *params: ir.KernelParam) -> ir.CppKernel:
    return ir.CppKernel(name=name, params=params, source=f"#include <cstdint>\n{source}", entry="kernel")


def store_kernel(dtype: ir.DType) -> ir.CppKernel:
    """Stores a scalar through a pointer to its type."""
    c = C_NAMES[dtype]
    source = f'extern "C" void kernel({c}* out0, const {c} x) {{ *out0 = x; }}'
    return kernel(f"store_{dtype.value}", source, pointer("out0", dtype, ir.Access.WRITE), scalar("x", dtype))


def address_kernel(dtype: ir.DType) -> ir.CppKernel:
    """Stores the address that it receives."""
    return kernel(
        f"address_{dtype.value}",
        'extern "C" void kernel(const void* in0, int64_t* out0) { *out0 = reinterpret_cast<int64_t>(in0); }',
        *(pointer("in0", dtype, ir.Access.READ), pointer("out0", ir.DType.I64, ir.Access.WRITE)),
    )


KERNELS = (
    kernel(
        "axpy",
        'extern "C" void kernel(const float* in0, float* out0, const int64_t n, const double a)\n'
        "{ for (int64_t i = 0; i < n; ++i) out0[i] += static_cast<float>(a) * in0[i]; }",
        *(pointer("in0", access=ir.Access.READ), pointer("out0"), scalar("n"), scalar("a", ir.DType.F64)),
    ),
    kernel(
        "threads",
        '#include <omp.h>\nextern "C" void kernel(int64_t* out0)\n{\n#pragma omp parallel\n{\n#pragma omp single\n'
        "*out0 = omp_get_num_threads();\n}\n}",
        pointer("out0", ir.DType.I64, ir.Access.WRITE),
    ),
    kernel(
        "thrower",
        '#include <stdexcept>\nextern "C" void kernel(float* out0) { throw std::runtime_error("division by zero"); }',
        pointer("out0"),
    ),
    kernel("nothing", 'extern "C" void kernel() {}'),
    *(address_kernel(dtype) for dtype in ir.DType),
    *(store_kernel(dtype) for dtype in C_NAMES),
)


@pytest.fixture(scope="module")
def loaded(shared_bench: Bench) -> dict[str, LoadedKernel]:
    return shared_bench.runtime().load_all(KERNELS, ir.Target())


@pytest.fixture(scope="module")
def unchecked(shared_bench: Bench) -> dict[str, LoadedKernel]:
    return shared_bench.runtime(CppOptions(check_args=False)).load_all(KERNELS, ir.Target())


def refused(code: str, text: str) -> pytest.RaisesExc[LaunchError]:
    return pytest.raises(LaunchError, match=rf"\[{code}\] .*{text}")


def test_values_are_those_of_eager(loaded: dict[str, LoadedKernel]) -> None:
    x, y = torch.randn(100), torch.randn(100)
    expected = y + 0.5 * x
    assert loaded["axpy"](x, y, 100, 0.5) is None
    torch.testing.assert_close(y, expected)


def test_views_start_at_their_offset(loaded: dict[str, LoadedKernel]) -> None:
    x, y = torch.arange(10.0), torch.zeros(10)
    loaded["axpy"](x[4:], y[2:], 3, 1.0)
    assert y.tolist() == [0, 0, 4, 5, 6, 0, 0, 0, 0, 0]


@pytest.mark.parametrize("make", [torch.nn.Parameter, lambda t: t, lambda t: torch.nn.Buffer(t)])
def test_parameters_and_buffers_are_tensors(
    loaded: dict[str, LoadedKernel], make: Callable[[torch.Tensor], torch.Tensor]
) -> None:
    y = make(torch.zeros(4))
    loaded["axpy"](torch.ones(4), y, 4, 2)
    assert y.tolist() == [2.0] * 4


def test_subclass_with_memory_of_its_own_is_a_tensor(loaded: dict[str, LoadedKernel]) -> None:
    class Mine(torch.Tensor):
        pass

    y = torch.zeros(4).as_subclass(Mine)
    loaded["axpy"](torch.ones(4), y, 4, 2)
    assert torch.Tensor(y).tolist() == [2.0] * 4


def test_empty_tensors_are_fine(loaded: dict[str, LoadedKernel], unchecked: dict[str, LoadedKernel]) -> None:
    for launch in (loaded["axpy"], unchecked["axpy"]):
        launch(torch.empty(0), torch.empty(0), 0, 1.0)


def is_shared(tensor: torch.Tensor) -> bool:
    return bool(torch._C._is_cow_tensor(tensor))  # type: ignore[attr-defined]  # absent from torch's stubs


def test_reading_leaves_copy_on_write_storage_shared(loaded: dict[str, LoadedKernel]) -> None:
    base = torch.ones(4, dtype=torch.bfloat16)
    lazy = torch._lazy_clone(base)
    where = torch.zeros(1, dtype=torch.int64)
    loaded["address_bf16"](lazy, where)
    assert is_shared(lazy)
    y = torch._lazy_clone(torch.zeros(4))
    loaded["axpy"](torch.ones(4), y, 4, 1.0)
    assert not is_shared(y)
    assert y.tolist() == [1.0] * 4


@pytest.mark.parametrize("args", [(), (1,), tuple(range(5)), tuple(range(70))])
def test_invalid_arity(loaded: dict[str, LoadedKernel], args: tuple[int, ...]) -> None:
    with refused("CPP402", rf"'axpy' takes 4 arguments \(in0, out0, n, a\), got {len(args)}"):
        loaded["axpy"](*args)


def test_invalid_keyword(loaded: dict[str, LoadedKernel]) -> None:
    with pytest.raises(TypeError, match="keyword"):
        loaded["nothing"](n=1)
    loaded["nothing"]()


@pytest.mark.parametrize(
    "bad", [None, 3, 1.5, "x", [1.0], torch.float32, object(), torch.Tensor, torch.Size([1])]
)
def test_invalid_tensor_argument(
    loaded: dict[str, LoadedKernel], unchecked: dict[str, LoadedKernel], bad: object
) -> None:
    for launch in (loaded["axpy"], unchecked["axpy"]):
        with refused("CPP403", "argument 1 'out0': expected a tensor, got"):
            launch(torch.ones(1), bad, 1, 1.0)


def test_object_that_only_claims_to_be_a_tensor(loaded: dict[str, LoadedKernel]) -> None:
    class Liar:
        @property  # type: ignore[misc]  # lying to isinstance is the point
        def __class__(self) -> type:
            return torch.Tensor

    assert isinstance(Liar(), torch.Tensor)
    with refused("CPP403", "expected a tensor, got Liar"):
        loaded["axpy"](torch.ones(1), Liar(), 1, 1.0)


@pytest.mark.parametrize(
    ("bad", "got"),
    [
        (torch.ones(1, dtype=torch.float64), "got f64 on cpu"),
        (torch.ones(1, dtype=torch.int32), "got i32 on cpu"),
        (torch.ones(1, device="meta"), "got f32 on meta"),
        (torch.ones(2).to_sparse(), "got f32 on cpu, which is not dense"),
        (torch.ones(2, 2).to_mkldnn(), "got f32 on cpu, which is not dense"),
    ],
)
def test_invalid_dtype_device_or_layout(loaded: dict[str, LoadedKernel], bad: torch.Tensor, got: str) -> None:
    with refused("CPP404", rf"'axpy', argument 0 'in0': expected a f32 tensor on cpu, {got}"):
        loaded["axpy"](bad, torch.ones(1), 1, 1.0)


def test_tensors_without_memory_never_reach_a_kernel(unchecked: dict[str, LoadedKernel]) -> None:
    with FakeTensorMode():
        fake = torch.empty(4)
    shrunk = torch.empty(4)
    shrunk.untyped_storage().resize_(0)
    for bad in (
        torch.ones(1, device="meta"),
        torch.ones(2).to_sparse(),
        torch.ones(2, 2).to_mkldnn(),
        fake,
        shrunk,
    ):
        with refused("CPP404", "argument 0 'in0': "):
            unchecked["axpy"](bad, torch.ones(1), 1, 1.0)


@pytest.mark.parametrize("dtype", [d for d in ir.DType if d in SCALAR_DTYPES])
def test_scalars_of_each_type(loaded: dict[str, LoadedKernel], dtype: ir.DType) -> None:
    launch = loaded[f"store_{dtype.value}"]
    torch_dtype = getattr(torch, dtype.torch_name)
    out = torch.zeros(1, dtype=torch_dtype)
    if dtype.is_floating:
        values: list[float] = [0.0, -1.5, 3, True, math.inf]
    elif dtype is ir.DType.BOOL:
        values = [True, False, 1, 0]
    else:
        limits = torch.iinfo(torch_dtype)
        values = [0, 1, limits.min, limits.max, True]
    for value in values:
        launch(out, value)
        assert out.item() == value
    launch(out, 1)
    launch(out, Index(0))
    assert out.item() == 0


class Index:
    """Integer class with `__index__`, as numpy's integers."""

    def __init__(self, value: int) -> None:
        self.value = value

    def __index__(self) -> int:
        return self.value


@pytest.mark.parametrize("dtype", [d for d in C_NAMES if not d.is_floating and d is not ir.DType.BOOL])
def test_invalid_integers_out_of_range(loaded: dict[str, LoadedKernel], dtype: ir.DType) -> None:
    torch_dtype = getattr(torch, dtype.torch_name)
    limits = torch.iinfo(torch_dtype)
    for value in (limits.min - 1, limits.max + 1, 10**30, Index(10**30)):
        with refused("CPP405", f"argument 1 'x': the value does not fit {dtype.value}"):
            loaded[f"store_{dtype.value}"](torch.zeros(1, dtype=torch_dtype), value)


@pytest.mark.parametrize("bad", [None, "1", 1.0, torch.tensor(1), [1]])
def test_invalid_integer(loaded: dict[str, LoadedKernel], bad: object) -> None:
    with refused("CPP403", "argument 2 'n': expected an int, got"):
        loaded["axpy"](torch.ones(1), torch.ones(1), bad, 1.0)


@pytest.mark.parametrize("bad", [None, "1", torch.tensor(1.0), [1], 1j])
def test_invalid_float(loaded: dict[str, LoadedKernel], bad: object) -> None:
    with refused("CPP403", "argument 3 'a': expected a float, got"):
        loaded["axpy"](torch.ones(1), torch.ones(1), 1, bad)


def test_error_of_an_index_is_the_callers(loaded: dict[str, LoadedKernel]) -> None:
    class Broken:
        def __index__(self) -> int:
            raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine"):
        loaded["axpy"](torch.ones(1), torch.ones(1), Broken(), 1.0)


def test_kernel_that_throws(loaded: dict[str, LoadedKernel]) -> None:
    with refused("CPP406", "kernel 'thrower' failed: division by zero"):
        loaded["thrower"](torch.ones(1))


def test_threads_are_torchs(loaded: dict[str, LoadedKernel]) -> None:
    before = torch.get_num_threads()
    out = torch.zeros(1, dtype=torch.int64)
    try:
        for count in (1, 2, 3):
            torch.set_num_threads(count)
            loaded["threads"](out)
            assert out.item() == count
    finally:
        torch.set_num_threads(before)


def test_launches_keep_no_references(loaded: dict[str, LoadedKernel]) -> None:
    x, y, n = torch.ones(4), torch.ones(4), 123456
    counts = [sys.getrefcount(o) for o in (x, y, n)]
    for _ in range(100):
        loaded["axpy"](x, y, 4, 1.0)
        for bad in ((x, y, n, None), (x, n, 1, 1.0), (x, y)):
            with pytest.raises(LaunchError):
                loaded["axpy"](*bad)
    del bad
    gc.collect()
    assert [sys.getrefcount(o) for o in (x, y, n)] == counts


def test_kernel_outlives_its_runtime_and_names_itself(shared_bench: Bench) -> None:
    launch = shared_bench.runtime().load(KERNELS[0], ir.Target())
    gc.collect()
    launch(torch.ones(1), torch.ones(1), 1, 1.0)
    assert launch.__name__ == "axpy"
    assert launch.__doc__ == "axpy(read f32* in0, readwrite f32* out0, i64 n, f64 a)"


def test_launcher_knows_every_dtype(shared_bench: Bench) -> None:
    settings = shared_bench.settings
    launcher = load_launcher(find_toolchain(settings.compiler), open_cache(settings.cache), CppOptions())
    assert sorted(launcher.dtypes()) == sorted(dtype.value for dtype in ir.DType)


@pytest.mark.parametrize("dtype", list(ir.DType))
def test_each_tensor_dtype_passes_and_no_other(loaded: dict[str, LoadedKernel], dtype: ir.DType) -> None:
    launch = loaded[f"address_{dtype.value}"]
    out = torch.zeros(1, dtype=torch.int64)
    tensors = {d: torch.empty(3, dtype=getattr(torch, d.torch_name)) for d in ir.DType}
    launch(tensors[dtype][1:], out)
    assert out.item() == tensors[dtype].data_ptr() + dtype.itemsize
    for other in set(ir.DType) - {dtype}:
        with refused("CPP404", f"expected a {dtype.value} tensor on cpu, got {other.value} on cpu"):
            launch(tensors[other], out)
