"""Products of 8-bit floats with scales, and sums of products of three tensors, by the native runtime against torch."""

from __future__ import annotations

import pytest
import torch

from tests.native.database_calls import compare_samples
from tests.native.operator_library import NativeError, Operators, build_operators

pytestmark = pytest.mark.conformance
SMALL = torch.float8_e4m3fn


@pytest.fixture(scope="module")
def operators(tmp_path_factory: pytest.TempPathFactory) -> Operators:
    """Both families in a library."""
    return build_operators(("scaled_matmuls", "trilinear"), str(tmp_path_factory.mktemp("scaled")))


@pytest.mark.parametrize("has_bias", [False, True])
@pytest.mark.parametrize("is_by_row", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, SMALL])
def test_scaled_products(operators: Operators, dtype: torch.dtype, is_by_row: bool, has_bias: bool) -> None:
    torch.manual_seed(0)
    a, b = torch.randn(4, 16).to(SMALL), torch.randn(32, 16).to(SMALL).t()
    scales = (torch.rand(4, 1), torch.rand(1, 32)) if is_by_row else (torch.tensor(2.0), torch.tensor(3.0))
    bias = torch.randn(32).to(torch.float32 if dtype is SMALL else dtype) if has_bias else None
    want = torch._scaled_mm(a, b, *scales, bias=bias, out_dtype=dtype)
    made = operators.call("aten::_scaled_mm", a, b, *scales, bias=bias, out_dtype=dtype)
    out = torch.empty(4, 32, dtype=dtype)
    operators.call("aten::_scaled_mm.out", a, b, *scales, bias=bias, out_dtype=dtype, out=out)
    for got in (made, out):
        torch.testing.assert_close(got.float(), want.float(), rtol=2e-2, atol=1e-5)


def test_results_beyond_8_bit_floats_are_the_largest(operators: Operators) -> None:
    a, b, scale = torch.randn(4, 16).to(SMALL), torch.randn(32, 16).to(SMALL).t(), torch.tensor(1000.0)
    got = operators.call("aten::_scaled_mm", a, b, scale, scale)
    torch.testing.assert_close(got.float(), torch._scaled_mm(a, b, scale, scale).float())


def test_sums_of_products_of_three_tensors(operators: Operators) -> None:
    findings = compare_samples(operators, ["nn.functional.bilinear"], count=12)
    assert not findings.wrong
    assert not findings.refused
    assert findings.right["aten::_trilinear"] > 0


def test_refuses_other_element_types(operators: Operators) -> None:
    scale = torch.tensor(1.0)
    with pytest.raises(NativeError, match="aten::_scaled_mm failed: the native operator has no code for"):
        operators.call("aten::_scaled_mm", torch.ones(2, 2), torch.ones(2, 2).to(SMALL), scale, scale)
