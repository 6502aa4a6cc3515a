"""Searches, histograms and distances of the native runtime against torch's, beyond the samples of the database."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from tests.native.database_calls import assert_same_tensor
from tests.native.operator_library import NativeError, Operators, build_operators

pytestmark = pytest.mark.conformance

FLOATS = (torch.float32, torch.float64)
NUMBERS = (*FLOATS, torch.bfloat16, torch.float16, torch.int64, torch.int32, torch.int8, torch.uint8)
NORMS = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, math.inf)


@pytest.fixture(scope="module")
def operators(tmp_path_factory: pytest.TempPathFactory) -> Operators:
    families = ("searching", "histograms", "distances")
    return build_operators(families, str(tmp_path_factory.mktemp("searches")))


def _compare(operators: Operators, name: str, *args: object, **kwargs: object) -> None:
    base, _, overload = name.removeprefix("aten::").partition(".")
    function = getattr(getattr(torch.ops.aten, base), overload or "default")  # by string: a table's name
    want, got = function(*args, **kwargs), operators.call(name, *args, **kwargs)
    for a, b in zip(got, want) if isinstance(want, tuple) else [(got, want)]:
        assert_same_tensor(a, b)


@pytest.mark.parametrize("dtype", NUMBERS)
def test_searches(operators: Operators, dtype: torch.dtype) -> None:
    values = torch.randn(3, 4).mul(5).to(dtype)
    row = torch.randn(7).mul(5).to(dtype).sort()[0]
    rows = torch.randn(3, 5).mul(5).to(dtype)
    ordered, sorter = rows.sort(dim=-1)
    for right in (False, True):
        for x in (values, values.t(), values[0, 0], values[:0], values.double()):
            _compare(operators, "aten::searchsorted.Tensor", row, x, right=right, out_int32=right)
            _compare(operators, "aten::bucketize.Tensor", x, row, right=right)
        for number in (1, 2.5, -100, 100):
            _compare(operators, "aten::searchsorted.Scalar", row, number, right=right)
            _compare(operators, "aten::bucketize.Scalar", number, row, right=right)
    _compare(operators, "aten::searchsorted.Tensor", ordered, values, side="right")
    _compare(operators, "aten::searchsorted.Tensor", rows, values, sorter=sorter)
    _compare(operators, "aten::searchsorted.Tensor", row[:0], values)


def test_searches_of_special_numbers(operators: Operators) -> None:
    row = torch.tensor([-math.inf, 0.0, 2.0, math.inf, math.nan])
    values = torch.tensor([math.nan, math.inf, -math.inf, -0.0])
    for right in (False, True):
        _compare(operators, "aten::searchsorted.Tensor", row, values, right=right)


@pytest.mark.parametrize("dtype", [*FLOATS, torch.bfloat16, torch.float16])
def test_counts_of_numbers(operators: Operators, dtype: torch.dtype) -> None:
    x = torch.randn(5, 8).to(dtype)
    for y in (x, x.t(), x[:0], torch.ones(3, dtype=dtype), torch.arange(2000).remainder(7).to(dtype)):
        for limits in ((), (-1, 1), (0.5, 0.5)):
            _compare(operators, "aten::histc", y, 7, *limits)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("density", [False, True])
def test_histograms(operators: Operators, dtype: torch.dtype, density: bool) -> None:
    x, edges = torch.randn(5, 8).to(dtype), torch.tensor([-1, -0.5, 0, 0.3, 2], dtype=dtype)
    for y in (x, x.t(), torch.ones(3, dtype=dtype)):
        weight = torch.rand_like(y)
        _compare(operators, "aten::histogram.bins_tensor", y, edges, density=density)
        _compare(operators, "aten::histogram.bins_tensor", y, edges, weight=weight, density=density)
        _compare(operators, "aten::histogram.bin_ct", y, 5, density=density)
        _compare(operators, "aten::histogram.bin_ct", y, 5, range=[-2.0, 1.5], weight=weight, density=density)
    points, weight = torch.randn(4, 9, 2).to(dtype), torch.rand(4, 9).to(dtype)
    limits = [-1.0, 1.0, -2.0, 2.0]
    name = "aten::_histogramdd_from_bin_cts"
    _compare(operators, name, points, [3, 4], range=limits, weight=weight, density=density)
    _compare(operators, name, points, [3, 4], density=density)
    _compare(operators, "aten::_histogramdd_from_bin_tensors", points, [edges, edges], density=density)
    got = operators.call("aten::_histogramdd_bin_edges", points, [3, 4], taken=(2,))
    for a, b in zip(got, torch.ops.aten._histogramdd_bin_edges(points, [3, 4]), strict=True):
        assert_same_tensor(a, b)


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.uint8])
def test_counts_of_integers(operators: Operators, dtype: torch.dtype) -> None:
    x = torch.randint(0, 9, (20,)).to(dtype)
    for minlength in (0, 30):
        _compare(operators, "aten::bincount", x, minlength=minlength)
        _compare(operators, "aten::bincount", x[:0], minlength=minlength)
    for weight in (torch.float32, torch.float64, torch.float16, torch.int64):
        _compare(operators, "aten::bincount", x, torch.rand(20).mul(4).to(weight))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("p", NORMS)
def test_distances(operators: Operators, p: float, dtype: torch.dtype) -> None:
    a, b = torch.randn(4, 6, dtype=dtype), torch.randn(5, 6, dtype=dtype)
    x = torch.randn(6, 5, dtype=dtype)
    pairs: list[tuple[Tensor, Tensor]] = [
        (a, b), (a[:0], b), (a[:, :0], b[:, :0]), (a.t(), torch.randn(6, 9, dtype=dtype)[:, :4]),
        (torch.randn(2, 1, 4, 19, dtype=dtype), torch.randn(3, 5, 19, dtype=dtype)),
        (torch.randn(40, 6, dtype=dtype), torch.randn(40, 6, dtype=dtype)),
    ]  # fmt: skip
    for first, second in pairs:
        _compare(operators, "aten::_cdist_forward", first, second, p, None)
    for y in (x, x[:1], x[:, :0]):
        _compare(operators, "aten::_pdist_forward", y, p)
    a[0], x[0] = b[0], x[1]
    far = torch.ops.aten._cdist_forward(a, b, p, 2)
    _compare(operators, "aten::_cdist_backward", torch.randn(4, 5, dtype=dtype), a, b, p, far)
    apart = torch.ops.aten._pdist_forward(x, p)
    _compare(operators, "aten::_pdist_backward", torch.randn(15, dtype=dtype), x, p, apart)


@pytest.mark.parametrize(
    ("name", "args", "text"),
    [
        ("aten::searchsorted.Tensor", (torch.ones(2, 3), torch.ones(3)), "not those of the values"),
        ("aten::searchsorted.Tensor", (torch.ones(1).bool(), torch.ones(1).bool()), "no code for element type"),
        ("aten::bucketize.Tensor", (torch.ones(2), torch.ones(2, 2)), "do not have one dimension"),
        ("aten::histc", (torch.tensor([math.nan]),), "the range is not finite"),
        ("aten::bincount", (torch.tensor([-1]),), "a number is negative"),
        ("aten::_cdist_forward", (torch.ones(2, 3), torch.ones(2, 2), 2.0, None), "different lengths"),
        ("aten::_pdist_forward", (torch.ones(2, 3), -1.0), "the norm is negative"),
    ],
)  # fmt: skip
def test_refuses_by_name(operators: Operators, name: str, args: tuple[object, ...], text: str) -> None:
    with pytest.raises(NativeError, match=text) as caught:
        operators.call(name, *args)
    assert name in str(caught.value)
