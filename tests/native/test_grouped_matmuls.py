"""Products of groups of rows, columns and common dimensions by the native runtime against torch's `mm`."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from tests.native.operator_library import NativeError, Operators, build_operators

pytestmark = pytest.mark.conformance
ENDS = (0, 3, 3, 7, 9)
"""Ends of five groups of ten rows: the first and third are empty, and one row is in no group."""
DTYPES = (torch.float32, torch.bfloat16, torch.float64)


@pytest.fixture(scope="module")
def operators(tmp_path_factory: pytest.TempPathFactory) -> Operators:
    """The family in a library."""
    return build_operators(("grouped_matmuls",), str(tmp_path_factory.mktemp("grouped")))


def _groups() -> list[tuple[int, slice]]:
    return [(n, slice(b, e)) for n, (b, e) in enumerate(zip((0, *ENDS), ENDS))]


def _drawn(*sizes: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(sizes, generator=torch.Generator().manual_seed(sum(sizes))).to(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("index", [torch.int32, torch.int64])
def test_rows_of_experts(operators: Operators, dtype: torch.dtype, index: torch.dtype) -> None:
    rows, experts = _drawn(10, 6, dtype=dtype), _drawn(5, 4, 6, dtype=dtype).transpose(1, 2)
    want = torch.zeros(10, 4, dtype=dtype)
    for n, part in _groups():
        want[part] = rows[part] @ experts[n]
    for name in ("aten::_grouped_mm", "transformers::grouped_mm_fallback"):
        got = operators.call(name, rows, experts, torch.tensor(ENDS, dtype=index))
        torch.testing.assert_close(got, want)


def test_columns_and_common_dimensions(operators: Operators) -> None:
    ends = torch.tensor(ENDS, dtype=torch.int32)
    batch, columns = _drawn(5, 3, 6), _drawn(10, 6).t()
    want = torch.zeros(3, 10)
    for n, part in _groups():
        want[:, part] = batch[n] @ columns[:, part]
    torch.testing.assert_close(operators.call("aten::_grouped_mm", batch, columns, ends), want)
    left, right = _drawn(3, 10), _drawn(10, 4)
    each = torch.stack([left[:, part] @ right[part] for _, part in _groups()])
    torch.testing.assert_close(operators.call("aten::_grouped_mm", left, right, ends), each)


def test_batches_have_no_groups(operators: Operators) -> None:
    a, b = _drawn(2, 3, 5), _drawn(2, 5, 4)
    torch.testing.assert_close(operators.call("aten::_grouped_mm", a, b), torch.bmm(a, b))


@pytest.mark.parametrize(
    ("ends", "words"),
    [((4, 2), "a group is not within"), ((4, 11), "a group is not within"), ((4,), "sizes of its arguments")],
)
def test_refuses_wrong_groups(operators: Operators, ends: tuple[int, ...], words: str) -> None:
    with pytest.raises(NativeError, match=words):
        operators.call(
            "aten::_grouped_mm", _drawn(10, 6), _drawn(2, 6, 4), torch.tensor(ends, dtype=torch.int32)
        )


def test_refuses_what_it_lacks(operators: Operators) -> None:
    rows, experts, ends = _drawn(4, 6), _drawn(2, 6, 4), torch.tensor([1, 4])
    with pytest.raises(NativeError, match="a bias is not supported"):
        operators.call("aten::_grouped_mm", rows, experts, ends, bias=_drawn(4))
    with pytest.raises(NativeError, match="need the ends of groups"):
        operators.call("aten::_grouped_mm", rows, experts)
