"""Kernels on a real CUDA device, against torch."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch
from packages.triton_runtime.tests.triton_texts import add_kernel, kernel_of

from triton_runtime import LaunchError, TritonOptions, TritonRuntime
from triton_runtime.cuda import CudaDriver, CudaOptions, Step, make_sequence
from wrapper_ir import ir
from wrapper_ir.plugins.protocols import LoadedKernel

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(
        not torch.cuda.is_available(), reason="kernels run on a CUDA device, and there is none"
    ),
]

Load = Callable[[ir.TritonKernel], LoadedKernel]


def target() -> ir.Target:
    major, minor = torch.cuda.get_device_capability()
    return ir.Target(device=ir.Device("cuda", torch.cuda.current_device()), arch=f"sm_{major}{minor}")


@pytest.fixture(scope="module")
def driver() -> CudaDriver:
    return CudaDriver()


@pytest.fixture(scope="module")
def load(driver: CudaDriver) -> Load:
    runtime = TritonRuntime(options=TritonOptions(driver=driver))
    return lambda kernel: runtime.load(kernel, target())


def kernel(
    params: str, source: str, grid: str, config: str = "{} warps(4) stages(1)", more: str = ""
) -> ir.TritonKernel:
    """A kernel `f` whose parameters are the definition's, then the config's meta-parameters."""
    names = [param.replace("divisible(16)", "").split()[-1] for param in params.split(", ")]
    meta = [pair.split("=")[0].strip() for pair in config[1 : config.index("}")].split(",") if "=" in pair]
    order = ", ".join([*names, *meta])
    return kernel_of(
        params, f"\n  order({order})\n  configs({config})\n  grid({grid})\n{more}", source, entry="f"
    )


DTYPES = [
    (torch.float64, "f64"), (torch.float32, "f32"), (torch.float16, "f16"), (torch.bfloat16, "bf16"),
    (torch.int64, "i64"), (torch.int32, "i32"), (torch.int16, "i16"), (torch.int8, "i8"), (torch.uint8, "u8"),
]  # fmt: skip

ADD = """
@triton.jit
def f(x, y, out, n, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    inside = at < n
    tl.store(out + at, tl.load(x + at, mask=inside) + tl.load(y + at, mask=inside), mask=inside)
"""


@pytest.mark.parametrize(("native", "dtype"), DTYPES)
def test_add_in_every_dtype_and_size(load: Load, native: torch.dtype, dtype: str) -> None:
    run = load(
        kernel(
            f"read {dtype}* x, read {dtype}* y, write {dtype}* out, i64 n",
            ADD,
            "ceildiv(n, B)",
            "{B = 128} warps(4) stages(1)",
        )
    )
    for n in (0, 1, 127, 128, 129, 100_003):
        x, y = (torch.randn(n + 1, device="cuda").mul(9).to(native)[1:] for _ in range(2))
        out = torch.empty_like(x)
        assert run(x, y, out, n) is None
        torch.testing.assert_close(out, x + y)


SCALARS = {
    "i8": -100, "i16": -30_000, "i32": -2_000_000_000, "i64": -(1 << 50), "u8": 250, "u16": 65_000, "u32": 4_000_000_000,
    "u64": 1 << 52, "f16": 0.333251953125, "bf16": 0.333984375, "f32": 0.3333333432674408, "f64": 1 / 3, "bool": 1,
}  # fmt: skip


def test_numbers_of_every_type_arrive(load: Load) -> None:
    names = [f"a_{dtype}" for dtype in SCALARS]
    stores = "\n".join(f"    tl.store(out + {i}, {name}.to(tl.float64))" for i, name in enumerate(names))
    source = f"\n@triton.jit\ndef f(out, {', '.join(names)}):\n{stores}\n"
    run = load(kernel("write f64* out, " + ", ".join(f"{d} a_{d}" for d in SCALARS), source, "1"))
    out = torch.empty(len(SCALARS), dtype=torch.float64, device="cuda")
    run(out, *SCALARS.values())
    assert out.tolist() == [float(value) for value in SCALARS.values()]


def test_reduction_over_rows_in_a_grid_of_two(load: Load) -> None:
    source = """
@triton.jit
def f(x, out, rows, columns, B: tl.constexpr):
    row = tl.program_id(0) + tl.program_id(1) * tl.num_programs(0)
    total = tl.zeros([B], dtype=tl.float32)
    for start in range(0, columns, B):
        at = start + tl.arange(0, B)
        total += tl.load(x + row * columns + at, mask=(at < columns) & (row < rows), other=0.0)
    if row < rows:
        tl.store(out + row, tl.sum(total, axis=0))
"""
    run = load(
        kernel("read f32* x, write f32* out, i64 rows, i64 columns", source,
               "min(rows, 7), ceildiv(rows, min(rows, 7))", "{B = 256} warps(8) stages(2)")
    )  # fmt: skip
    for rows, columns in ((1, 1), (7, 300), (100, 1000), (65, 4097)):
        x = torch.randn(rows, columns, device="cuda")
        out = torch.full((rows,), torch.nan, device="cuda")
        run(x, out, rows, columns)
        torch.testing.assert_close(out, x.sum(1), rtol=1e-4, atol=1e-4)


MATMUL = """
@triton.jit
def f(a, b, c, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, BK: tl.constexpr):
    m, n, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, BK)
    total = tl.zeros([M, N], dtype=tl.float32)
    for start in range(0, K, BK):
        x = tl.load(a + m[:, None] * K + (start + k)[None, :])
        y = tl.load(b + (start + k)[:, None] * N + n[None, :])
        total += tl.dot(x, y)
    tl.store(c + m[:, None] * N + n[None, :], total)
"""


def test_shared_memory_beyond_the_default(load: Load) -> None:
    run = load(
        kernel("read f16* a divisible(16), read f16* b divisible(16), write f32* c divisible(16)", MATMUL, "1",
               "{M = 128, N = 128, K = 512, BK = 64} warps(8) stages(4)")
    )  # fmt: skip
    a, b = torch.randn(128, 512, device="cuda").half(), torch.randn(512, 128, device="cuda").half()
    c = torch.empty(128, 128, device="cuda")
    run(a, b, c)
    torch.testing.assert_close(c, a.float() @ b.float(), rtol=1e-2, atol=1e-2)


def test_scratch_memory_of_descriptors_made_in_the_kernel(load: Load) -> None:
    if torch.cuda.get_device_capability() < (9, 0):
        pytest.skip("tensor descriptors in memory need sm_90")
    source = """
@triton.jit
def f(x, out, rows, columns, B: tl.constexpr):
    d = tl.make_tensor_descriptor(x, shape=[rows, columns], strides=[columns, 1], block_shape=[B, B])
    e = tl.make_tensor_descriptor(out, shape=[rows, columns], strides=[columns, 1], block_shape=[B, B])
    i, j = tl.program_id(0) * B, tl.program_id(1) * B
    e.store([i, j], d.load([i, j]) * 2)
"""
    run = load(
        kernel("read f32* x divisible(16), write f32* out divisible(16), i32 rows, i32 columns divisible(16)", source,
               "ceildiv(rows, B), ceildiv(columns, B)", "{B = 32} warps(4) stages(1)")
    )  # fmt: skip
    x = torch.randn(100, 208, device="cuda")
    out = torch.empty_like(x)
    run(x, out, 100, 208)
    torch.testing.assert_close(out, x * 2)


def test_descriptors_as_parameters(load: Load) -> None:
    """Copies blocks through descriptors of the launch's tensors, including views."""
    source = """
@triton.jit
def f(x, out, rows, B: tl.constexpr):
    i, j = tl.program_id(0) * B, tl.program_id(1) * 64
    out.store([i, j], x.load([i, j]) * 2)
"""
    run = load(
        kernel_of(
            "read f32[] x block(B, 64), write f32[] out block(B, 64), i32 rows",
            "\n  order(x, out, rows, B)\n  configs({B = 32} warps(4) stages(1))\n  grid(ceildiv(rows, "
            "B), g) over(g)\n",
            source,
            entry="f",
        )
    )
    whole = torch.randn(100, 260, device="cuda")
    for x in (whole, whole[:, 4:204], whole[10:11], torch.randn(2000, 256, device="cuda")):
        out = torch.empty(x.shape[0], (x.shape[1] + 3) // 4 * 4, device="cuda")[:, : x.shape[1]]
        run(x, out, x.shape[0], (x.shape[1] + 63) // 64)
        torch.testing.assert_close(out, x * 2)


def test_cooperative_grids_meet(load: Load) -> None:
    """Every program waits for all others, so they must run at the same time."""
    source = """
@triton.jit
def f(counter, out, programs):
    tl.atomic_add(counter, 1, sem="release")
    seen = tl.atomic_add(counter, 0, sem="acquire")
    while seen < programs:
        seen = tl.atomic_add(counter, 0, sem="acquire")
    tl.store(out + tl.program_id(0), seen)
"""
    run = load(
        kernel(
            "readwrite i32* counter, write i32* out, i32 programs", source, "programs", more="  cooperative\n"
        )
    )
    count = torch.cuda.get_device_properties(0).multi_processor_count
    counter, out = (
        torch.zeros(1, dtype=torch.int32, device="cuda"),
        torch.zeros(count, dtype=torch.int32, device="cuda"),
    )
    run(counter, out, count)
    assert out.tolist() == [count] * count
    with pytest.raises(LaunchError, match=r"TR308.*COOPERATIVE_LAUNCH_TOO_LARGE"):
        run(counter, out, 1_000_000)
    counter.zero_()
    run(counter, out, 4)
    assert counter.item() == 4


def test_clusters(load: Load) -> None:
    if torch.cuda.get_device_capability() < (9, 0):
        pytest.skip("clusters need sm_90")
    run = load(
        kernel("read f32* x, read f32* y, write f32* out, i32 n", ADD, "ceildiv(n, B)",
               "{B = 1024} warps(4) stages(1) options(num_ctas = 2)")
    )  # fmt: skip
    x, y = torch.randn(5000, device="cuda"), torch.randn(5000, device="cuda")
    out = torch.empty_like(x)
    run(x, y, out, 5000)
    torch.testing.assert_close(out, x + y)


def test_wrong_arguments_and_the_next_call(load: Load) -> None:
    run = load(add_kernel())
    x = torch.randn(1000, device="cuda")
    out = torch.empty_like(x)
    host = torch.randn(1000)
    for args, message in (
        ((x, host, out, 1000), r"TR302.*'y_ptr'.*a f32 tensor on cuda:0, got a float32 tensor on cpu"),
        ((x, x.double(), out, 1000), r"TR302.*'y_ptr'.*got a float64 tensor on cuda:0"),
        ((x, x, out, 1 << 31), r"TR303.*'n'"),
        ((x, x[1:], out, 999), r"TR306.*'y_ptr'"),
        ((x, x, out), r"TR301"),
    ):
        with pytest.raises(LaunchError, match=message):
            run(*args)
        out.zero_()
        run(x, x, out, 1000)
        torch.testing.assert_close(out, x + x)
    run(x, host.pin_memory(), out, 1000)
    torch.testing.assert_close(out, x + host.cuda())


def test_streams_threads_and_graphs(load: Load) -> None:
    run = load(add_kernel())
    x, out = torch.randn(1 << 20, device="cuda"), torch.zeros(1 << 20, device="cuda")
    # the first launch may wait for the device, because it loads the code
    run(x, x, out, 1 << 20)
    out.zero_()
    side = torch.cuda.Stream()  # type: ignore[no-untyped-call]  # torch's own
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        torch.cuda._sleep(10_000_000)  # type: ignore[no-untyped-call]  # torch's own
        run(x, x, out, 1 << 20)
    assert not side.query(), "the launch is behind the wait, on the side stream"
    side.synchronize()
    torch.testing.assert_close(out, x + x)
    out.zero_()
    torch.cuda.synchronize()
    thread = threading.Thread(target=lambda: run(x, x, out, 1 << 20, stream=side.cuda_stream))
    thread.start()
    thread.join()
    torch.cuda.synchronize()
    torch.testing.assert_close(out, x + x)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run(out, x, out, 1 << 20)
        run(out, x, out, 1 << 20)
    out.zero_()
    graph.replay()
    torch.testing.assert_close(out, x + x)


def test_sequences_hooks_and_unchecked_launches(driver: CudaDriver, load: Load) -> None:
    run = load(add_kernel())
    x = torch.randn(1000, device="cuda")
    a, b = torch.empty_like(x), torch.empty_like(x)
    both = make_sequence(driver, [Step(run, (0, 0, 1, 3)), Step(run, (1, 0, 2, 3))], 3, (1000,))
    calls: list[Any] = []
    driver.hooks.enter = lambda kernel, grid, stream: calls.append(grid)
    try:
        both(x, a, b)
    finally:
        driver.hooks.enter = None
    torch.testing.assert_close(b, x + x + x)
    assert calls == [(8, 1, 1)] * 2
    unchecked = CudaDriver(options=CudaOptions(check_args=False))
    again = TritonRuntime(options=TritonOptions(driver=unchecked)).load(add_kernel(), target())
    again(x, x, a, 1000)
    torch.testing.assert_close(a, x + x)


def test_launches_need_no_python_for_tensors_and_streams(driver: CudaDriver) -> None:
    """The native path is used: torch's C functions for tensors and for the current stream are available."""
    from triton_runtime.cuda.tensors import stream_source

    x = torch.empty(3, device="cuda")[1:]
    address, _, device_type, index = driver.extension.facts(x)
    assert (address, device_type, index) == (x.data_ptr(), 1, torch.cuda.current_device())
    library, _ = stream_source(ir.Device("cuda", 0))
    assert library is not None
