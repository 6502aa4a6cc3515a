"""Matrix products of the native runtime, against eager torch."""

from __future__ import annotations

import ctypes
import math
import tempfile
from collections.abc import Callable
from functools import lru_cache

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from cpp_wrapper.kernels.isa import ISAS, host_features
from tests.native.levels import GENERIC, flags_of
from tests.native.operator_library import NativeError, Operators, build_operators

pytestmark = pytest.mark.slow  # compiles the operators for each instruction set
_FAMILIES = ("matmuls", "packed_matmuls", "int8_matmuls")
_FLOATS = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
_INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
_COMPLEX = (torch.complex64, torch.complex128)
_TOLERANCES = {torch.float32: 2e-5, torch.complex64: 2e-5, torch.bfloat16: 2e-2, torch.float16: 3e-3}
_SIZES = st.sampled_from([0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 48, 50, 65])
_DTYPES = st.sampled_from([*_FLOATS, *_FLOATS, *_INTEGERS, *_COMPLEX])


_LEVELS = ("avx512", "avx2", GENERIC)


def _levels() -> list[str]:
    return [name for name in _LEVELS if name == GENERIC or ISAS[name].needs <= host_features()]


@lru_cache
def _library(level: str) -> Operators:
    with tempfile.TemporaryDirectory() as folder:  # a loaded library needs no file
        return build_operators(_FAMILIES, folder, flags_of(level))


@pytest.fixture(params=_levels())
def native(request: pytest.FixtureRequest) -> Operators:
    return _library(request.param)


def libraries() -> st.SearchStrategy[Operators]:
    return st.sampled_from(_levels()).map(_library)


def _random(generator: torch.Generator, sizes: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    if dtype in _INTEGERS:
        return torch.randint(-100, 100, sizes, generator=generator).to(dtype)
    return torch.randn(sizes, generator=generator, dtype=torch.float64).to(dtype)


@st.composite
def tensors(draw: st.DrawFn, sizes: tuple[int, ...], dtype: torch.dtype, repeats: bool = False) -> Tensor:
    """A tensor of any strides: permuted, with gaps, and repeated if allowed."""
    generator = torch.Generator().manual_seed(draw(st.integers(0, 1000)))
    order = draw(st.permutations(range(len(sizes))))
    steps = [draw(st.sampled_from([1, 1, 1, 2])) for _ in sizes]
    offset = draw(st.sampled_from([0, 0, 1]))
    kept = [1 if repeats and draw(st.booleans()) else size for size in sizes]
    base = _random(generator, tuple(kept[i] * steps[i] + offset for i in order), dtype)
    inverse = [order.index(i) for i in range(len(sizes))]
    view = base.permute(inverse)
    for dim, step in enumerate(steps):
        view = view.narrow(dim, offset, view.size(dim) - offset)[
            (slice(None),) * dim + (slice(None, None, step),)
        ]
    return view.expand(sizes)


def _check(made: Tensor, wanted: Tensor, depth: int) -> None:
    assert made.size() == wanted.size()
    assert made.dtype == wanted.dtype
    tolerance = _TOLERANCES.get(wanted.dtype, 1e-12)
    if wanted.dtype in _INTEGERS:
        assert torch.equal(made, wanted)
    else:
        torch.testing.assert_close(
            made, wanted, rtol=tolerance, atol=tolerance * math.sqrt(depth + 1) * 4, equal_nan=True
        )


def _wanted(operator: Callable[..., Tensor], *args: Tensor, **scalars: float) -> Tensor:
    """The result in double precision, so that one tolerance fits all libraries of torch."""
    dtype = args[0].dtype
    wide = [a.double() if dtype in (torch.bfloat16, torch.float16) else a for a in args]
    return operator(*wide, **scalars).to(dtype)


@given(native=libraries(), data=st.data(), dtype=_DTYPES, m=_SIZES, n=_SIZES, k=_SIZES)
def test_products_of_matrices(
    native: Operators, data: st.DataObject, dtype: torch.dtype, m: int, n: int, k: int
) -> None:
    a, b = data.draw(tensors((m, k), dtype)), data.draw(tensors((k, n), dtype))
    out = data.draw(tensors((m, n), dtype))
    wanted = _wanted(torch.mm, a, b)
    _check(native.call("aten::mm", a, b), wanted, k)
    native.call("aten::mm.out", a, b, out=out)
    _check(out, wanted, k)


@given(native=libraries(), data=st.data(), dtype=_DTYPES, m=_SIZES, n=_SIZES, k=_SIZES)
def test_sums_with_products(
    native: Operators, data: st.DataObject, dtype: torch.dtype, m: int, n: int, k: int
) -> None:
    a, b = data.draw(tensors((m, k), dtype)), data.draw(tensors((k, n), dtype))
    out = data.draw(tensors((m, n), dtype))
    sizes = data.draw(st.sampled_from([(m, n), (n,), (1, n), (m, 1), ()]))
    beta, alpha = data.draw(st.sampled_from([(1, 1), (1, 1), (0, 1), (2, 3), (1, -1), (0, 2)]))
    bias = out if sizes == (m, n) and data.draw(st.booleans()) else data.draw(tensors(sizes, dtype))
    if beta == 0 and dtype in _FLOATS:
        bias.fill_(math.nan)
    wanted = _wanted(torch.addmm, bias, a, b, beta=beta, alpha=alpha)
    _check(native.call("aten::addmm", bias, a, b, beta=beta, alpha=alpha), wanted, k)
    native.call("aten::addmm.out", bias, a, b, beta=beta, alpha=alpha, out=out)
    _check(out, wanted, k)


@given(
    native=libraries(), data=st.data(), dtype=_DTYPES, batches=st.integers(0, 3), m=_SIZES, n=_SIZES, k=_SIZES
)
def test_batches(
    native: Operators, data: st.DataObject, dtype: torch.dtype, batches: int, m: int, n: int, k: int
) -> None:
    a = data.draw(tensors((batches, m, k), dtype, repeats=True))
    b = data.draw(tensors((batches, k, n), dtype, repeats=True))
    out = data.draw(tensors((batches, m, n), dtype))
    _check(native.call("aten::bmm", a, b), _wanted(torch.bmm, a, b), k)
    native.call("aten::bmm.out", a, b, out=out)
    _check(out, _wanted(torch.bmm, a, b), k)
    bias = data.draw(tensors(data.draw(st.sampled_from([(batches, m, n), (m, n), (n,), ()])), dtype))
    wanted = _wanted(torch.baddbmm, bias, a, b, beta=2, alpha=3)
    _check(native.call("aten::baddbmm", bias, a, b, beta=2, alpha=3), wanted, k)
    native.call("aten::baddbmm.out", bias, a, b, beta=2, alpha=3, out=out)
    _check(out, wanted, k)
    if bias.dim() < 3 and dtype not in _INTEGERS:
        wanted = _wanted(torch.addbmm, bias, a, b, beta=2, alpha=3)
        _check(native.call("aten::addbmm", bias, a, b, beta=2, alpha=3), wanted, 10 * k)


@given(native=libraries(), data=st.data(), dtype=_DTYPES, m=_SIZES, k=_SIZES)
def test_vectors(native: Operators, data: st.DataObject, dtype: torch.dtype, m: int, k: int) -> None:
    a, b, out = (data.draw(tensors(sizes, dtype)) for sizes in ((m, k), (k,), (m,)))
    _check(native.call("aten::mv", a, b), _wanted(torch.mv, a, b), k)
    bias = data.draw(tensors(data.draw(st.sampled_from([(m,), (1,), ()])), dtype))
    native.call("aten::addmv.out", bias, a, b, beta=2, alpha=3, out=out)
    _check(out, _wanted(torch.addmv, bias.expand(m), a, b, beta=2, alpha=3), k)
    other = data.draw(tensors((k,), dtype))
    _check(native.call("aten::dot", other, b), _wanted(torch.dot, other, b), k)
    _check(native.call("aten::vdot", other, b), _wanted(torch.vdot, other, b), k)


@pytest.mark.parametrize(
    "size", [(3, 70, 2500), (100, 300, 64), (1, 1000, 300), (300, 1, 2000), (40, 50, 1030)]
)
@pytest.mark.parametrize("dtype", _FLOATS)
def test_large_products(native: Operators, dtype: torch.dtype, size: tuple[int, int, int]) -> None:
    """More than one block of the depth, several tiles, and threads."""
    m, n, k = size
    generator = torch.Generator().manual_seed(0)
    a, b = _random(generator, (m, k), dtype), _random(generator, (n, k), dtype)
    bias = _random(generator, (n,), dtype)
    wanted = _wanted(torch.addmm, bias, a, b.t(), beta=1, alpha=1)
    _check(native.call("aten::addmm", bias, a, b.t()), wanted, k)
    _check(native.call("aten::addmm", bias, a, b.t().contiguous()), wanted, k)
    _check(native.call("aten::addmm", bias, a.t().contiguous().t(), b.t(), alpha=1), wanted, k)


@pytest.mark.parametrize("size", [(70, 200, 100), (1, 3000, 300), (300, 20, 400)])
def test_threads_change_nothing(native: Operators, size: tuple[int, int, int]) -> None:
    m, n, k = size
    generator = torch.Generator().manual_seed(0)
    a, b = torch.randn(m, k, generator=generator), torch.randn(k, n, generator=generator)
    pairs, threads = _panels(b.bfloat16(), 2), ctypes.CDLL("libgomp.so.1")

    def results() -> list[Tensor]:
        out = torch.empty(m, n, dtype=torch.bfloat16)
        native.call("wrapper_ir::packed_addmm.out", None, a.bfloat16(), pairs, n, out=out)
        return [
            native.call("aten::mm", a, b),
            native.call("aten::bmm", a.expand(3, m, k), b.expand(3, k, n)),
            out,
        ]

    before = threads.omp_get_max_threads()
    threads.omp_set_num_threads(1)
    alone = results()
    threads.omp_set_num_threads(3)
    try:
        together = results()
    finally:
        threads.omp_set_num_threads(before)
    assert all(torch.equal(left, right) for left, right in zip(alone, together))


def test_overlapping_results(native: Operators) -> None:
    generator = torch.Generator().manual_seed(0)
    base = torch.randn(200, generator=generator)
    a, b, out = (base[i : i + 64].view(8, 8) for i in (0, 30, 17))
    wanted = torch.addmm(b.clone(), a.clone(), b.clone())
    native.call("aten::addmm.out", b, a, b, out=out)
    _check(out, wanted, 8)


def _panels(matrix: Tensor, interleave: int) -> Tensor:
    k, n = matrix.shape
    panels, words = -(-n // 16), -(-k // interleave)
    padded = matrix.new_zeros(words * interleave, panels * 16)
    padded[:k, :n] = matrix
    packed = padded.view(words, interleave, panels, 16).permute(2, 0, 3, 1).contiguous()
    return packed.squeeze(-1) if interleave == 1 else packed


_products_of_floats = given(
    native=libraries(),
    data=st.data(),
    dtype=st.sampled_from([torch.float32, torch.bfloat16, torch.float16]),
    m=_SIZES,
    n=_SIZES.filter(bool),
    k=_SIZES.filter(bool),
)


@_products_of_floats
def test_packed_products(
    native: Operators, data: st.DataObject, dtype: torch.dtype, m: int, n: int, k: int
) -> None:
    a, b, out = (data.draw(tensors(sizes, dtype)) for sizes in ((m, k), (k, n), (m, n)))
    bias = data.draw(st.one_of(st.none(), tensors((n,), dtype)))
    packed = _panels(b, 1 if dtype is torch.float32 else 2)
    native.call("wrapper_ir::packed_addmm.out", bias, a, packed, n, out=out)
    wanted = _wanted(torch.mm, a, b) if bias is None else _wanted(torch.addmm, bias, a, b)
    _check(out, wanted, k)


@pytest.mark.parametrize("bias_dtype", _FLOATS)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_biases_of_other_types(native: Operators, dtype: torch.dtype, bias_dtype: torch.dtype) -> None:
    a, b, bias = torch.randn(9, 33).to(dtype), torch.randn(33, 70).to(dtype), torch.randn(70).to(bias_dtype)
    out = torch.empty(9, 70, dtype=dtype)
    native.call("wrapper_ir::packed_addmm.out", bias, a, _panels(b, 2), 70, out=out)
    _check(out, (a.double() @ b.double() + bias.double()).to(dtype), 33)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_results_round_to_even_and_keep_nan(native: Operators, dtype: torch.dtype) -> None:
    """Products with an identity: each result is a bias plus a number of the row, rounded once."""
    n = 40
    row = torch.linspace(-3, 3, n).to(dtype).view(1, n)
    row[0, 3], row[0, 20] = math.inf, -math.inf
    bias = torch.linspace(0, 0.01, n)
    bias[5] = math.nan
    out = torch.empty(1, n, dtype=dtype)
    native.call("wrapper_ir::packed_addmm.out", bias, row[:, :1] * 0 + 1, _panels(row, 2), n, out=out)
    assert torch.equal(out.nan_to_num(7), (row.float() + bias).to(dtype).nan_to_num(7))


@_products_of_floats
def test_products_of_floats_and_int8(
    native: Operators, data: st.DataObject, dtype: torch.dtype, m: int, n: int, k: int
) -> None:
    a, out = data.draw(tensors((m, k), dtype)), data.draw(tensors((m, n), dtype))
    b = data.draw(tensors((n, k), torch.int8))
    scales = data.draw(tensors((n,), dtype)) / 100
    wanted = ((a.double() @ b.double().t()) * scales.double()).to(dtype)
    _check(native.call("aten::_weight_int8pack_mm", a, b, scales), wanted, 10 * k)
    bias = data.draw(st.one_of(st.none(), tensors((n,), dtype)))
    native.call("wrapper_ir::packed_addmm_int8.out", bias, a, _panels(b.t(), 4), scales, n, out=out)
    _check(out, wanted if bias is None else (wanted.double() + bias.double()).to(dtype), 10 * k)


@given(
    native=libraries(),
    data=st.data(),
    dtype=st.sampled_from([torch.int8, torch.uint8]),
    m=_SIZES,
    n=_SIZES.filter(bool),
    k=_SIZES,
)
def test_products_of_bytes(
    native: Operators, data: st.DataObject, dtype: torch.dtype, m: int, n: int, k: int
) -> None:
    a, b = data.draw(tensors((m, k), dtype)), data.draw(tensors((k, n), torch.int8))
    wanted = (a.long() @ b.long()).int()
    assert torch.equal(native.call("aten::_int_mm", a, b), wanted)
    if k == 0:
        return
    out = torch.empty(m, n, dtype=torch.int32)
    packed = _panels(b, 4)
    native.call("wrapper_ir::packed_addmm_int8.out", None, a, packed, None, n, out=out)
    assert torch.equal(out, wanted)
    scaled, scales, bias = torch.empty(m, n), torch.rand(n), torch.rand(n)
    native.call("wrapper_ir::packed_addmm_int8.out", bias, a, packed, scales, n, out=scaled)
    torch.testing.assert_close(scaled, wanted * scales + bias)


@pytest.mark.parametrize(
    ("name", "args", "message"),
    [
        ("aten::mm", (torch.ones(2, 3), torch.ones(2, 3)), "aten::mm failed: the sizes of its arguments"),
        ("aten::mm", (torch.ones(2, 3), torch.ones(3)), "wrong number of dimensions"),
        ("aten::mm", (torch.ones(2, 3), torch.ones(3, 2).double()), "different element types"),
        ("aten::bmm", (torch.ones(2, 3, 1), torch.ones(1, 1, 3)), "the sizes of its arguments"),
        ("aten::mm", (torch.ones(2, 2).bool(), torch.ones(2, 2).bool()), "aten::mm failed: .* element type"),
        ("aten::_int_mm", (torch.ones(2, 2), torch.ones(2, 2)), "aten::_int_mm failed"),
    ],
)
def test_refusals(native: Operators, name: str, args: tuple[Tensor, ...], message: str) -> None:
    with pytest.raises(NativeError, match=message):
        native.call(name, *args)
