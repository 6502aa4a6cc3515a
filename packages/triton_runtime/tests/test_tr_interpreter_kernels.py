"""Runs generated and handwritten kernels in Triton's interpreter, and compares with torch."""

from __future__ import annotations

import pytest
import torch
from packages.triton_runtime.tests.conftest import Load
from packages.triton_runtime.tests.triton_texts import kernel_of

from triton_runtime import LaunchError

HELPERS = (
    "from torch._inductor.runtime import triton_helpers\n"
    "from torch._inductor.runtime.triton_helpers import libdevice, math as tl_math\n"
)
ROWS = (
    "order(x, out, rows, XBLOCK, RBLOCK)\n  configs({XBLOCK = 4, RBLOCK = 32} warps(4) stages(1))\n  "
    "grid(ceildiv(rows, XBLOCK))"
)


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
    clauses = (
        "order(x, out, where, sums, rows, XBLOCK)\n  configs({XBLOCK = 8} warps(4) stages(1))\n  "
        "grid(ceildiv(rows, XBLOCK))"
    )
    params = "read bf16* x, write bf16* out, write i64* where, write f32* sums, i32 rows"
    x = torch.randn(20, 64).bfloat16()
    x[3, 10] = x[3, 40] = 9.0  # the first of two maxima
    out, where, sums = torch.zeros_like(x), torch.zeros(20, dtype=torch.int64), torch.zeros(20, 64)
    load(kernel_of(params, clauses, source, entry="rows"))(x, out, where, sums, 20)
    torch.testing.assert_close(out, x.float().softmax(1).bfloat16(), rtol=1e-2, atol=1e-6)
    assert torch.equal(where, x.float().argmax(1))
    torch.testing.assert_close(sums, x.float().cumsum(1))


def test_scans_and_reductions_of_functions_that_do_not_commute(load: Load) -> None:
    """Composes linear maps in both directions and over several axes, in the order of a loop."""
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
        clauses = (
            f"order(a, b, out_a, out_b, ends, BACK)\n  constants(BACK = {str(back).lower()})\n  "
            f"configs({{}} warps(1) stages(1))\n  grid(1)"
        )
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
    clauses = (
        "order(seeds, out, counts, offset, n, BLOCK)\n  configs({BLOCK = 128} warps(4) stages(1))\n  "
        "grid(ceildiv(n, BLOCK))"
    )
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
def test_matrix_matmuls_and_arithmetic_in_small_types(load: Load, name: str, dtype: torch.dtype) -> None:
    source = """
@triton.jit
def matmul(a, b, out, total, N: tl.constexpr):
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
            entry="matmul",
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
    # bf16 has no bit for 2**-10
    assert out.tolist() == [3.25, 3.0]
    kernel(out, False, -(1 << 40), 0.25, 0.0)
    assert out.tolist() == [0.0, -1.0]


def test_device_functions_through_a_kernel(load: Load) -> None:
    """Types follow Triton's rules for arguments."""
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
    ("name", "dtype"), [("i64", torch.int64), ("f32", torch.float32), ("bf16", torch.bfloat16)]
)
def test_results_of_comparisons_are_truth_values(load: Load, name: str, dtype: torch.dtype) -> None:
    """They convert to integers, combine, and select, for any operand type."""
    source = """
@triton.jit
def plus(a, b):
    return a + b

@triton.jit
def compare(x, y, counts, chosen, N: tl.constexpr):
    at = tl.arange(0, N)
    a, b = tl.load(x + at), tl.load(y + at)
    first = tl.load(x)
    less = (first == first) & (a < b) & (a != 0)
    tl.store(counts + at, tl.associative_scan(less.to(tl.int64), 0, plus))
    tl.store(chosen + at, tl.where(less | (a == b), a, b).to(tl.float32))
"""
    clauses = (
        "order(x, y, counts, chosen, N)\n  constants(N = 64)\n  configs({} warps(1) stages(1))\n  grid(1)"
    )
    params = f"read {name}* x, read {name}* y, write i64* counts, write f32* chosen"
    x, y = torch.randint(-2, 3, (2, 64)).to(dtype)
    counts, selection = torch.zeros(64, dtype=torch.int64), torch.zeros(64)
    load(kernel_of(params, clauses, source, entry="compare"))(x, y, counts, selection)
    assert torch.equal(counts, ((x < y) & (x != 0)).cumsum(0))
    assert torch.equal(selection, torch.where(((x < y) & (x != 0)) | (x == y), x, y).float())


@pytest.mark.parametrize(
    ("name", "dtype"), [("f32", torch.float32), ("f16", torch.float16), ("bf16", torch.bfloat16)]
)
def test_atomic_sums_in_small_types(load: Load, name: str, dtype: torch.dtype) -> None:
    """Several elements of one block add to one address; those outside the mask add nothing."""
    source = """
@triton.jit
def scatter(out, where, values, counts, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    place = tl.load(where + at, inside, other=0)
    tl.atomic_add(out + place, tl.load(values + at, inside, other=0.0), inside)
    tl.atomic_add(counts + place, tl.full([1], 1.0, tl.float32), inside)
"""
    clauses = (
        "order(out, where, values, counts, n, BLOCK)\n  configs({BLOCK = 32} warps(1) stages(1))\n  "
        "grid(ceildiv(n, BLOCK))"
    )
    params = f"readwrite {name}* out, read i64* where, read {name}* values, readwrite f32* counts, i32 n"
    out, where = torch.ones(5).to(dtype), torch.randint(0, 5, (50,))
    values = torch.randint(-4, 5, (50,)).to(dtype)  # sums are exact
    want = out.double().index_add(0, where, values.double())
    counts = torch.zeros(5)
    load(kernel_of(params, clauses, source, entry="scatter"))(out, where, values, counts, 50)
    assert torch.equal(out.double(), want)
    assert torch.equal(counts, where.bincount(minlength=5).float())
