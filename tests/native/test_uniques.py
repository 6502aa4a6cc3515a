"""Operators of the native runtime over unique elements, segments and masked indices against torch's."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from tests.native.database_calls import assert_same_tensor
from tests.native.operator_library import NativeError, Operators, build_operators

pytestmark = pytest.mark.conformance

FLOATS = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
NUMBERS = (*FLOATS, torch.int64, torch.int32, torch.uint8, torch.int8, torch.bool)


@pytest.fixture(scope="module")
def operators(tmp_path_factory: pytest.TempPathFactory) -> Operators:
    families = ("uniques", "segments", "indexing", "reductions", "bags")
    return build_operators(families, str(tmp_path_factory.mktemp("uniques")))


def _compare(operators: Operators, name: str, *args: object, **kwargs: object) -> None:
    base, _, overload = name.removeprefix("aten::").partition(".")
    function = getattr(getattr(torch.ops.aten, base), overload or "default")  # by string: a table's name
    want, got = function(*args, **kwargs), operators.call(name, *args, **kwargs)
    for a, b in zip(got, want) if isinstance(want, tuple) else [(got, want)]:
        assert_same_tensor(a, b)


def _layouts(x: Tensor) -> list[Tensor]:
    return [x, x.permute(2, 0, 1), x[0, 0], x[:0], x[:, :, ::2]]


@pytest.mark.parametrize("dtype", [*NUMBERS, torch.uint16, torch.uint64])
def test_unique_elements_and_slices(operators: Operators, dtype: torch.dtype) -> None:
    x = torch.randint(0, 3, (3, 4, 5)).to(dtype)
    for y in (*_layouts(x), torch.randint(0, 2, (8, 2, 1)).to(dtype)):
        for more in (False, True):
            _compare(operators, "aten::_unique2", y, True, more, more)
            _compare(operators, "aten::unique_consecutive", y, more, more)
        _compare(operators, "aten::unique_consecutive", y, True, True, 0)
        for dim in (0, -1):
            if all(y.shape[:dim]) and all(y.shape[1:]):
                _compare(operators, "aten::unique_dim", y, dim, True, True, True)
                _compare(operators, "aten::unique_dim_consecutive", y, dim, True, True)


@pytest.mark.parametrize("dtype", FLOATS)
def test_nan_differs_from_itself(operators: Operators, dtype: torch.dtype) -> None:
    x = torch.tensor([math.nan, 1, 0.0, math.nan, -0.0, 1]).to(dtype)
    _compare(operators, "aten::_unique2", x, True, True, True)
    _compare(operators, "aten::unique_consecutive", x, True, True)


@pytest.mark.parametrize("dtype", [*NUMBERS, torch.complex64])
def test_positions_of_true_elements(operators: Operators, dtype: torch.dtype) -> None:
    x = torch.randint(0, 2, (3, 4, 5)).to(dtype)
    for y in (*_layouts(x), x[0, 0, 0]):
        _compare(operators, "aten::nonzero", y)


@pytest.mark.parametrize("dtype", NUMBERS)
def test_hashes(operators: Operators, dtype: torch.dtype) -> None:
    x = torch.randn(3, 4, 5).to(dtype)
    for y in _layouts(x):
        for dims in ([], [0], [-1]):
            if y.numel() and y.dim() >= len(dims):
                for keepdim in (False, True):
                    _compare(operators, "aten::hash_tensor", y, dims, keepdim=keepdim)


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32])
def test_repeated_indices(operators: Operators, dtype: torch.dtype) -> None:
    counts = torch.tensor([1, 0, 3], dtype=dtype)
    for size in (None, 4):
        _compare(operators, "aten::repeat_interleave.Tensor", counts, output_size=size)


@pytest.mark.parametrize("dtype", [*NUMBERS, torch.complex64])
def test_masked_indices(operators: Operators, dtype: torch.dtype) -> None:
    x, index = torch.randn(3, 4, 5).to(dtype), torch.tensor([2, 0, 9])
    mask = torch.tensor([True, False, True])
    columns = torch.tensor([[1], [-1], [0]])
    for given, flags in (
        ([index], mask[:, None, None]),
        ([None, index], mask[:, None]),
        ([columns, index], mask[:, None]),
    ):
        _compare(operators, "aten::_unsafe_masked_index", x, flags, given, 2)
    name = "aten::_unsafe_masked_index_put_accumulate"
    _compare(operators, name, x, mask[:, None, None], [index], torch.ones(3, 4, 5).to(dtype))


@pytest.mark.parametrize("p", [0.0, 1.0, 2.0, 3.0, math.inf])
def test_limited_norms_of_rows(operators: Operators, p: float) -> None:
    for dtype in (torch.float32, torch.float64, torch.bfloat16):
        weight, index = torch.randn(5, 4).mul(3).to(dtype), torch.tensor([[0, 2], [2, 3]])
        for x in (weight, weight.t()):
            _compare(operators, "aten::embedding_renorm", x, index, 1.5, p)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("reduce", ["sum", "mean", "max", "min", "prod"])
def test_segments(operators: Operators, reduce: str, dtype: torch.dtype) -> None:
    x = torch.randn(6, 4).to(dtype)
    lengths, offsets = torch.tensor([2, 0, 4]), torch.tensor([0, 2, 6], dtype=torch.int32)
    nan = x.clone()
    nan[0] = math.nan
    name, backward = "aten::segment_reduce", "aten::_segment_reduce_backward"
    for y in (x, x.t().contiguous().t(), x[:, 0], nan):
        for initial in (None, 1, 0.5):
            _compare(operators, name, y, reduce, offsets=offsets, initial=initial)
            _compare(operators, name, y, reduce, lengths=lengths, initial=initial)
            out = torch.ops.aten.segment_reduce(y, reduce, lengths=lengths, initial=initial)
            grad = torch.randn(out.shape).to(dtype)
            _compare(operators, backward, grad, out, y, reduce, lengths=lengths, initial=initial)
    whole, rows = torch.randint(-2, 2, (2, 6, 3)).to(dtype), torch.tensor([[2, 4], [3, 3]])
    _compare(operators, name, whole, reduce, lengths=rows, axis=1)
    out = torch.ops.aten.segment_reduce(whole, reduce, lengths=rows, axis=1)
    _compare(operators, backward, torch.randn(out.shape).to(dtype), out, whole, reduce, lengths=rows, axis=1)


@pytest.mark.parametrize(
    ("name", "args", "kwargs", "text"),
    [
        ("aten::_unique2", (torch.ones(2, dtype=torch.complex64),), {}, "no code for element type c64"),
        ("aten::unique_dim", (torch.ones(()), 0), {}, "the tensor has no dimensions"),
        ("aten::repeat_interleave.Tensor", (torch.tensor([1, 2]),), {"output_size": 4}, "do not give the output size"),
        ("aten::embedding_renorm", (torch.ones(2, 2), torch.tensor([7]), 1.0, 2.0), {}, "index 7"),
        ("aten::segment_reduce", (torch.ones(3), "sum"), {}, "neither lengths nor offsets"),
        ("aten::segment_reduce", (torch.ones(3), "sum"), {"lengths": torch.tensor([1, 1])}, "are not those of the data"),
        ("aten::segment_reduce", (torch.ones(3), "sum"), {"offsets": torch.tensor([0, 9])}, "not within the data"),
        ("aten::segment_reduce", (torch.ones(3), "any"), {"lengths": torch.tensor([3])}, "the reduction is unknown"),
        ("aten::hash_tensor", (torch.ones(0),), {}, "there are no elements"),
    ],
)  # fmt: skip
def test_refuses_by_name(
    operators: Operators, name: str, args: tuple[object, ...], kwargs: dict[str, object], text: str
) -> None:
    with pytest.raises(NativeError, match=text) as caught:
        operators.call(name, *args, **kwargs)
    assert name in str(caught.value)
