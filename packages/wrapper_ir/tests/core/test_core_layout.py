"""Layout arithmetic compared with torch: strides of new tensors, and the bytes that `empty_strided`
allocates."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from wrapper_ir import ir
from wrapper_ir.expr import Expr, Int, Sym, evaluate, mul

SIZES = st.lists(st.integers(0, 5), max_size=4)
STRIDED = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 40)), max_size=4)


def ints(xs: list[int]) -> tuple[Expr, ...]:
    return tuple(Int(x) for x in xs)


def symbols(count: int) -> tuple[Expr, ...]:
    return tuple(Sym(f"s{i}") for i in range(count))


def values(xs: list[int]) -> dict[str, int]:
    return {f"s{i}": x for i, x in enumerate(xs)}


@given(SIZES)
def test_contiguous_strides_and_numel_are_those_of_torch(sizes: list[int]) -> None:
    new = torch.empty(sizes)
    assert ir.contiguous_strides(ints(sizes)) == ints(list(new.stride()))
    assert ir.numel(ints(sizes)) == Int(new.numel())


@given(SIZES)
def test_symbolic_strides_are_those_of_torch_where_no_size_is_0(sizes: list[int]) -> None:
    sizes = [max(s, 1) for s in sizes]
    strides = ir.contiguous_strides(symbols(len(sizes)))
    assert [evaluate(s, values(sizes)) for s in strides] == list(torch.empty(sizes).stride())


@given(STRIDED)
def test_extent_is_what_torch_allocates(dims: list[tuple[int, int]]) -> None:
    sizes, strides = [d[0] for d in dims], [d[1] for d in dims]
    storage = torch.empty_strided(sizes, strides, dtype=torch.uint8).untyped_storage()
    assert ir.extent_elements(ints(sizes), ints(strides)) == Int(storage.nbytes())


@given(STRIDED)
def test_symbolic_extent_is_what_torch_allocates_where_no_size_is_0(dims: list[tuple[int, int]]) -> None:
    sizes, strides = [max(d[0], 1) for d in dims], [d[1] for d in dims]
    storage = torch.empty_strided(sizes, strides, dtype=torch.uint8).untyped_storage()
    extent = ir.extent_elements(symbols(len(sizes)), ints(strides))
    assert evaluate(extent, values(sizes)) == storage.nbytes()


@given(st.permutations(range(3)), st.lists(st.integers(0, 4), min_size=3, max_size=3))
def test_symbolic_extent_of_dense_layouts_is_exact_also_for_size_0(
    order: list[int], sizes: list[int]
) -> None:
    """A permuted row-major tensor: the extent is the product of the sizes, for any sizes."""
    size = symbols(3)
    rows = ir.contiguous_strides([size[d] for d in order])
    strides = tuple(rows[order.index(d)] for d in range(3))
    extent = ir.extent_elements(size, strides)
    expected = torch.empty([sizes[d] for d in order], dtype=torch.uint8).untyped_storage().nbytes()
    assert evaluate(extent, values(sizes)) == expected


@given(STRIDED)
def test_contiguous_here_is_contiguous_in_torch(dims: list[tuple[int, int]]) -> None:
    sizes, strides = [d[0] for d in dims], [d[1] for d in dims]
    assert ir.is_contiguous(ints(sizes), ir.contiguous_strides(ints(sizes)))
    if ir.is_contiguous(ints(sizes), ints(strides)):
        assert torch.empty_strided(sizes, strides).is_contiguous()


@pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental")
@pytest.mark.parametrize("dtype", ir.DType, ids=lambda d: d.value)
def test_dtypes_are_those_of_torch(dtype: ir.DType) -> None:
    theirs = getattr(torch, dtype.torch_name)  # by the name under test
    assert isinstance(theirs, torch.dtype)
    assert dtype.itemsize == theirs.itemsize
    assert dtype.is_floating == theirs.is_floating_point
    assert dtype.is_complex == theirs.is_complex
    layout = (ints([2, 3]), ints([1, 8]))
    nbytes = torch.empty_strided((2, 3), (1, 8), dtype=theirs).untyped_storage().nbytes()
    assert ir.extent_bytes(ir.TensorType(dtype, *layout)) == Int(nbytes)


def test_every_strided_dtype_of_torch_that_kernels_use_is_there() -> None:
    """Covers all torch dtypes except quantized, sub-byte and packed ones, and bcomplex32, which has few
    operators."""
    outside = {"bcomplex32", "qint8", "quint8", "qint32", "quint4x2", "quint2x4", "bits", "int1", "uint1"}
    torch_dtypes = {str(d).removeprefix("torch.") for d in vars(torch).values() if isinstance(d, torch.dtype)}
    ours = {d.torch_name for d in ir.DType}
    missing = torch_dtypes - ours
    sub_byte = {f"{sign}int{bits}" for sign in ("", "u") for bits in range(1, 8)}
    assert {m for m in missing if m not in outside | sub_byte and not m.startswith("bits")} == set()


def test_extents_scale_by_the_item_size() -> None:
    s0 = Sym("s0")
    assert ir.extent_bytes(ir.TensorType(ir.DType.F64, (s0, Int(4)), (Int(4), Int(1)))) == mul(32, s0)
    assert ir.extent_bytes(ir.TensorType(ir.DType.F32, (), ())) == Int(4)
