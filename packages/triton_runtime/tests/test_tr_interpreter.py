"""Triton's interpreter runs kernels on CPU tensors as devices would, and leaves no trace of having run."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from packages.triton_runtime.tests.triton_texts import (
    ADD,
    ADD_CLAUSES,
    ADD_PARAMS,
    add_kernel,
    bound,
    kernel_of,
)

from triton_runtime import Driver, KernelError, Launchable, LaunchError, bind, make_grid
from triton_runtime.fake import FakeDriver
from triton_runtime.interp import InterpreterDriver
from wrapper_ir.kernels import TritonKernel
from wrapper_ir.protocols import LoadedKernel
from wrapper_ir.types import CPU, Device

HELPERS = (
    "from torch._inductor.runtime import triton_helpers\n"
    "from torch._inductor.runtime.triton_helpers import libdevice, math as tl_math\n"
)
ROWS = "order(x, out, rows, XBLOCK, RBLOCK)\n  configs({XBLOCK = 4, RBLOCK = 32} warps(4) stages(1))\n  grid(ceildiv(rows, XBLOCK))"
Load = Callable[..., LoadedKernel]


@pytest.fixture
def load(tmp_path: Path) -> Load:
    """Loads a kernel, with its first config or another."""

    def run(kernel: TritonKernel, config: int = 0) -> LoadedKernel:
        return InterpreterDriver(folder=tmp_path).load(launchable(kernel, config), CPU)

    return run


def launchable(kernel: TritonKernel, config: int = 0) -> Launchable:
    chosen = kernel.configs[config]
    return Launchable(
        kernel=kernel, config=chosen, binding=bind(kernel, chosen), grid=make_grid(kernel, chosen)
    )


# Any: modules and classes of Triton
def language() -> list[tuple[Any, dict[str, Any]]]:
    """All that a kernel can see of Triton, as it is now."""
    from triton.language.extra import libdevice as generic
    from triton.language.extra.cuda import libdevice as cuda
    from triton.runtime.interpreter import interpreter_builder
    from triton.runtime.jit import JITFunction

    seen = (
        tl,
        tl.core,
        tl.math,
        tl.standard,
        tl.tensor,
        tl.dtype,
        tl.core.tensor_descriptor_base,
        generic,
        cuda,
    )
    return [(thing, dict(vars(thing))) for thing in (*seen, JITFunction)] + [
        (
            interpreter_builder,
            {k: v for k, v in vars(interpreter_builder).items() if not k.startswith("grid_")},
        )
    ]


def test_it_runs_and_puts_everything_back(load: Load) -> None:
    kernel = load(add_kernel())
    x, y, out = torch.randn(1000), torch.randn(1000), torch.full((1001,), 7.0)
    before, environment, errors = language(), dict(os.environ), np.geterr()
    kernel(x, y, out[:1000], 1000)
    assert torch.equal(out[:1000], x + y)
    assert out[1000] == 7.0
    for (thing, names), (_, after) in zip(before, language(), strict=True):
        assert names == after, thing
    assert dict(os.environ) == environment
    assert np.geterr() == errors
    assert not triton.knobs.runtime.interpret


@pytest.mark.parametrize("config", [0, 1])
def test_every_config_computes_the_same(load: Load, config: int) -> None:
    x, y, out = torch.randn(300), torch.randn(300), torch.zeros(300)
    load(add_kernel(), config)(x, y, out, 300)
    assert torch.equal(out, x + y)


def test_an_empty_grid_runs_nothing(load: Load) -> None:
    out = torch.ones(4)
    load(add_kernel())(torch.zeros(4), torch.zeros(4), out, 0)
    assert torch.equal(out, torch.ones(4))


def test_a_failing_kernel_names_its_line_and_the_next_launch_works(load: Load) -> None:
    source = ADD.replace("x + y", "x + y.no_such_thing")
    before = language()
    broken = load(kernel_of(ADD_PARAMS, ADD_CLAUSES, source, entry="add", name="broken"))
    args = torch.ones(8), torch.ones(8), torch.zeros(8), 8
    with pytest.raises(LaunchError, match=r"'broken' failed .*, line 10: tl.store\(out_ptr") as caught:
        broken(*args)
    assert caught.value.code == "TR304"
    for (thing, names), (_, after) in zip(before, language(), strict=True):
        assert names == after, thing
    load(add_kernel())(*args)
    assert torch.equal(args[2], torch.full((8,), 2.0))


def test_threads_take_turns(load: Load) -> None:
    kernel = load(add_kernel())
    results = [torch.zeros(2000) for _ in range(4)]
    ones = torch.ones(2000)
    threads = [
        threading.Thread(target=kernel, args=(ones, ones * i, out, 2000)) for i, out in enumerate(results)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for i, out in enumerate(results):
        assert torch.equal(out, ones * (1 + i))


def test_a_row_reduction_with_a_loop(load: Load) -> None:
    """Welford's variance over blocks of a row, as generated kernels compute it."""
    source = (
        HELPERS
        + """
@triton.jit
def norm(x, out, rows, XBLOCK: tl.constexpr, RBLOCK: tl.constexpr):
    n = 100
    row = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)[:, None]
    inside = row < rows
    base = tl.arange(0, RBLOCK)[None, :]
    mean = tl.zeros([XBLOCK, RBLOCK], tl.float32)
    m2 = tl.zeros([XBLOCK, RBLOCK], tl.float32)
    weight = tl.zeros([XBLOCK, RBLOCK], tl.float32)
    for offset in tl.range(0, n, RBLOCK):
        at = offset + base
        mask = (at < n) & inside
        value = tl.load(x + (at + n * row), mask, other=0.0)
        next_mean, next_m2, next_weight = triton_helpers.welford_reduce(value, mean, m2, weight, offset == 0)
        mean = tl.where(mask, next_mean, mean)
        m2 = tl.where(mask, next_m2, m2)
        weight = tl.where(mask, next_weight, weight)
    all_mean, all_m2, all_weight = triton_helpers.welford(mean, m2, weight, 1)
    scale = libdevice.rsqrt(all_m2[:, None] / all_weight[:, None] + 1e-05)
    for offset in tl.range(0, n, RBLOCK):
        at = offset + base
        mask = (at < n) & inside
        value = tl.load(x + (at + n * row), mask, other=0.0)
        tl.store(out + (at + n * row), (value - all_mean[:, None]) * scale, mask)
"""
    )
    x, out = torch.randn(10, 100) * 3 + 5, torch.zeros(10, 100)
    load(kernel_of("read f32* x, write f32* out, i32 rows", ROWS, source, entry="norm"))(x, out, 10)
    torch.testing.assert_close(out, torch.nn.functional.layer_norm(x, (100,)), rtol=1e-5, atol=1e-5)


def test_softmax_arguments_of_maxima_and_scans_in_bfloat16(load: Load) -> None:
    source = (
        HELPERS
        + """
@triton.jit
def rows(x, out, where, sums, rows, XBLOCK: tl.constexpr):
    R: tl.constexpr = 64
    row = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)[:, None]
    inside = row < rows
    at = tl.arange(0, R)[None, :]
    value = tl.load(x + (at + R * row), inside, other=0.0).to(tl.float32)
    masked = tl.where(inside, value, float("-inf"))
    top = triton_helpers.max2(masked, 1)[:, None]
    weights = tl_math.exp(value - top)
    total = tl.sum(tl.where(inside, weights, 0), 1)[:, None]
    tl.store(out + (at + R * row), weights / total, inside)
    _, index = triton_helpers.max_with_index(masked, tl.broadcast_to(at, masked.shape), 1)
    tl.store(where + row, index[:, None], inside)
    (scanned,) = tl.associative_scan((value,), 1, plus)
    tl.store(sums + (at + R * row), scanned, inside)

@triton.jit
def plus(a, b):
    return a + b
"""
    )
    clauses = "order(x, out, where, sums, rows, XBLOCK)\n  configs({XBLOCK = 8} warps(4) stages(1))\n  grid(ceildiv(rows, XBLOCK))"
    params = "read bf16* x, write bf16* out, write i64* where, write f32* sums, i32 rows"
    x = torch.randn(20, 64).bfloat16()
    x[3, 10] = x[3, 40] = 9.0  # the first of two maxima
    out, where, sums = torch.zeros_like(x), torch.zeros(20, dtype=torch.int64), torch.zeros(20, 64)
    load(kernel_of(params, clauses, source, entry="rows"))(x, out, where, sums, 20)
    torch.testing.assert_close(out, x.float().softmax(1).bfloat16(), rtol=1e-2, atol=1e-6)
    assert torch.equal(where, x.float().argmax(1))
    torch.testing.assert_close(sums, x.float().cumsum(1))


def test_scans_and_reductions_of_functions_that_do_not_commute(load: Load) -> None:
    """Composition of linear maps, in both directions and over several axes: the order is what a loop has."""
    source = """
@triton.jit
def compose(a1, b1, a2, b2):
    return a1 * a2, b1 * a2 + b2

@triton.jit
def maps(a, b, out_a, out_b, ends, BACK: tl.constexpr):
    at = tl.arange(0, 4)[:, None] * 16 + tl.arange(0, 16)[None, :]
    x, y = tl.associative_scan((tl.load(a + at), tl.load(b + at)), 1, compose, reverse=BACK)
    tl.store(out_a + at, x)
    tl.store(out_b + at, y)
    p, q = tl.reduce((tl.load(a + at), tl.load(b + at)), 1, compose)
    tl.store(ends + tl.arange(0, 4), q)
"""
    params = "read f64* a, read f64* b, write f64* out_a, write f64* out_b, write f64* ends"
    a, b = torch.randn(2, 4, 16, dtype=torch.float64)
    for back in (False, True):
        clauses = f"order(a, b, out_a, out_b, ends, BACK)\n  constants(BACK = {str(back).lower()})\n  configs({{}} warps(1) stages(1))\n  grid(1)"
        out_a, out_b, ends = torch.zeros_like(a), torch.zeros_like(b), torch.zeros(4, dtype=torch.float64)
        load(kernel_of(params, clauses, source, entry="maps"))(a, b, out_a, out_b, ends)
        p, q = torch.ones(4, dtype=torch.float64), torch.zeros(4, dtype=torch.float64)
        for i in reversed(range(16)) if back else range(16):
            p, q = p * a[:, i], q * a[:, i] + b[:, i]
            torch.testing.assert_close(out_a[:, i], p)
            torch.testing.assert_close(out_b[:, i], q)
        if not back:
            torch.testing.assert_close(ends, q)


def test_random_numbers_and_atomics(load: Load) -> None:
    source = (
        HELPERS
        + """
@triton.jit
def draw(seeds, out, counts, offset, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    seed = tl.load(seeds + offset)
    tl.store(out + at, tl.rand(seed, at.to(tl.uint32)), inside)
    which = triton_helpers.randint64(seed, at.to(tl.uint32), 0, 10)
    tl.atomic_add(counts + which, tl.full([BLOCK], 1, tl.int32), inside)
"""
    )
    clauses = "order(seeds, out, counts, offset, n, BLOCK)\n  configs({BLOCK = 128} warps(4) stages(1))\n  grid(ceildiv(n, BLOCK))"
    kernel = load(
        kernel_of(
            "read i64* seeds, write f32* out, readwrite i32* counts, i32 offset, i32 n",
            clauses,
            source,
            entry="draw",
        )
    )
    seeds, counts = torch.tensor([3, 2**40 + 1]), torch.zeros(10, dtype=torch.int32)
    first, second = torch.zeros(2000), torch.zeros(2000)
    kernel(seeds, first, counts, 1, 2000)
    kernel(seeds, second, counts, 1, 2000)
    assert torch.equal(first, second)
    assert first.min() >= 0
    assert first.max() < 1
    assert abs(first.mean() - 0.5) < 0.03
    assert counts.sum() == 4000
    assert counts.min() > 250


@pytest.mark.parametrize(
    ("name", "dtype"), [("f32", torch.float32), ("f16", torch.float16), ("bf16", torch.bfloat16)]
)
def test_matrix_products_and_arithmetic_in_small_types(load: Load, name: str, dtype: torch.dtype) -> None:
    source = """
@triton.jit
def product(a, b, out, total, N: tl.constexpr):
    at = tl.arange(0, N)[:, None] * N + tl.arange(0, N)[None, :]
    x, y = tl.load(a + at), tl.load(b + at)
    tl.store(out + at, tl.dot(x, y, allow_tf32=False))
    tl.store(total + at, x + y * 0.5)
"""
    clauses = "order(a, b, out, total, N)\n  constants(N = 32)\n  configs({} warps(4) stages(1))\n  grid(1)"
    kernel = load(
        kernel_of(
            f"read {name}* a, read {name}* b, write f32* out, write {name}* total",
            clauses,
            source,
            entry="product",
        )
    )
    a, b = torch.randn(2, 32, 32).to(dtype)
    out, total = torch.zeros(32, 32), torch.zeros(32, 32, dtype=dtype)
    kernel(a, b, out, total)
    torch.testing.assert_close(out, a.float() @ b.float(), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(total, a + b * 0.5, rtol=1e-2, atol=1e-2)


def test_tensor_descriptors(load: Load) -> None:
    source = """
@triton.jit
def double(a, out, M: tl.constexpr, N: tl.constexpr):
    row = tl.program_id(0) * M
    out.store([row, 0], a.load([row, 0]) * 2)
"""
    clauses = "order(a, out, M, N)\n  configs({M = 16, N = 32} warps(4) stages(1))\n  grid(4)"
    kernel = load(
        kernel_of("read f16[] a block(M, N), write f16[] out block(M, N)", clauses, source, entry="double")
    )
    a, out = torch.randn(50, 32).half(), torch.zeros(50, 32).half()
    kernel(a, out)
    assert torch.equal(out, a * 2)
    with pytest.raises(LaunchError, match="'a' has sizes"):
        kernel(a.t(), out)


def test_constants_and_numbers_of_every_kind(load: Load) -> None:
    source = """
@triton.jit
def mixed(out, flag, big, small, half, bias, one, KIND: tl.constexpr, MODE: tl.constexpr):
    if bias is not None:
        value = tl.load(bias)
    else:
        value = one + 1
    if MODE == "sum":
        value = value + small
    value = tl.where(flag, value, 0.0)
    tl.store(out, value.to(KIND) + half)
    tl.store(out + 1, (big >> 40).to(KIND))
"""
    clauses = (
        "order(out, flag, big, small, half, bias, one, KIND, MODE)\n"
        '  constants(bias = none, one = 1, KIND = dtype(f32), MODE = "sum")\n  configs({} warps(1) stages(1))\n  grid(1)'
    )
    kernel = load(
        kernel_of("write f32* out, bool flag, i64 big, f64 small, bf16 half", clauses, source, entry="mixed")
    )
    out = torch.zeros(2)
    kernel(out, True, 3 << 40, 0.25, 1.0 + 2**-10)
    assert out.tolist() == [3.25, 3.0]  # a bf16 has no digit for 2**-10
    kernel(out, False, -(1 << 40), 0.25, 0.0)
    assert out.tolist() == [0.0, -1.0]


def test_device_functions_through_a_kernel(load: Load) -> None:
    """By Triton's own rules for the types of their arguments."""
    source = (
        HELPERS
        + """
@triton.jit
def functions(x, out, whole, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    inside = at < n
    v = tl.load(x + at, inside, other=1.0)
    tl.store(out + at, libdevice.erf(v) + libdevice.pow(tl_math.abs(v), 1.5) + libdevice.tanh(v) + tl_math.cos(v), inside)
    tl.store(whole + at, libdevice.llrint(v * 10) + libdevice.isnan(v).to(tl.int64), inside)
"""
    )
    clauses = "order(x, out, whole, n, BLOCK)\n  configs({BLOCK = 64} warps(1) stages(1))\n  grid(1)"
    kernel = load(
        kernel_of("read f32* x, write f32* out, write i64* whole, i32 n", clauses, source, entry="functions")
    )
    x, out, whole = torch.randn(50), torch.zeros(50), torch.zeros(50, dtype=torch.int64)
    kernel(x, out, whole, 50)
    torch.testing.assert_close(out, x.erf() + x.abs() ** 1.5 + x.tanh() + x.cos(), rtol=1e-5, atol=1e-6)
    assert torch.equal(whole, (x * 10).round().long())


@pytest.mark.parametrize(
    ("args", "code", "message"),
    [
        (lambda x, n: (x, x, x), "TR301", "takes 4 arguments, not 3"),
        (lambda x, n: (x, x.double(), x, n), "TR302", "'y_ptr' is of torch.float64, not torch.float32"),
        (lambda x, n: (x, x.to("meta"), x, n), "TR302", "'y_ptr' is on meta, not on cpu"),
        (lambda x, n: (x, 5, x, n), "TR302", "'y_ptr' is a int, not a tensor"),
        (lambda x, n: (x, x[1:], x, n), "TR302", "no multiple of 16"),
        (lambda x, n: (x, x, x, 1.5), "TR303", "'n' is 1.5, not of i32"),
        (lambda x, n: (x, x, x, 2**31), "TR303", "not of i32"),
    ],
)
def test_arguments_that_do_not_fit(
    load: Load, args: Callable[..., tuple[object, ...]], code: str, message: str
) -> None:
    x = torch.zeros(8)
    with pytest.raises(LaunchError, match=message) as caught:
        load(add_kernel())(*args(x, 8))
    assert caught.value.code == code
    assert isinstance(caught.value, TypeError)


def test_other_devices_and_other_functions_are_refused(tmp_path: Path) -> None:
    driver = InterpreterDriver(folder=tmp_path)
    with pytest.raises(KernelError) as caught:
        driver.load(launchable(add_kernel()), Device("cuda", 0))
    assert caught.value.code == "TR107"
    swapped = ADD_CLAUSES.replace("x_ptr, y_ptr", "y_ptr, x_ptr")
    with pytest.raises(KernelError, match="the definition says") as caught:
        driver.load(launchable(kernel_of(ADD_PARAMS, swapped, ADD, entry="add")), CPU)
    assert caught.value.code == "TR102"


def test_the_fake_driver_records() -> None:
    driver = FakeDriver()
    assert isinstance(driver.name, str)
    typed: Driver = driver
    kernel = bound(
        "read f32* x, i32 n",
        "order(x, n, B)\n  configs({B = 4} warps(1) stages(1))\n  grid(ceildiv(n, B), g) over(g)",
    )
    loaded = typed.load(launchable(kernel), Device("cuda", 3))
    x = torch.zeros(2)
    loaded(x, 9, 5)
    [launch] = driver.launches
    assert (launch.kernel, launch.config, launch.grid) == (kernel, kernel.configs[0], (3, 5, 1))
    assert launch.args[0] is x
    assert launch.args[1:] == (9, 5)


def test_the_interpreter_needs_no_torch() -> None:
    """Of tensors it asks for addresses and names of types only."""
    import subprocess

    code = "import triton_runtime.interp, triton_runtime.fake, triton, sys; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
