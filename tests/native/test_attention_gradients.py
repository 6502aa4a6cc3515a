"""Gradients of attention by the native runtime against torch."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from tests.native.database_calls import assert_same_tensor
from tests.native.operator_library import NativeError, Operators, build_operators

pytestmark = pytest.mark.conformance
NAME = "aten::_scaled_dot_product_flash_attention_for_cpu_backward"
FORWARD = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
BACKWARD = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward


@pytest.fixture(scope="module")
def operators(tmp_path_factory: pytest.TempPathFactory) -> Operators:
    """The family in a library."""
    return build_operators(("attention_gradients",), str(tmp_path_factory.mktemp("attention")))


def heads(positions: int, dtype: torch.dtype, is_transposed: bool) -> Tensor:
    """Numbers of 2 batches, 3 heads and 8 numbers each, also with positions before heads in memory."""
    if is_transposed:
        return torch.randn(2, positions, 3, 8).to(dtype).transpose(1, 2)
    return torch.randn(2, 3, positions, 8).to(dtype)


@pytest.mark.parametrize("is_transposed", [False, True])
@pytest.mark.parametrize("scale", [None, 0.3])
@pytest.mark.parametrize("mask", ["none", "causal", "rows", "batches"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_gradients(
    operators: Operators, dtype: torch.dtype, mask: str, scale: float | None, is_transposed: bool
) -> None:
    torch.manual_seed(0)
    is_causal = mask == "causal"
    keys = 7 if is_causal else 9
    query, key, value = (heads(n, dtype, is_transposed) for n in (7, keys, keys))
    shapes = {"rows": (7, 9), "batches": (2, 1, 7, 9)}
    added = torch.randn(shapes[mask]).to(dtype) if mask in shapes else None
    out, logsumexp = FORWARD(query, key, value, 0.0, is_causal, attn_mask=added, scale=scale)
    given = (torch.randn_like(out), query, key, value, out, logsumexp, 0.0, is_causal)
    want = BACKWARD(*given, attn_mask=added, scale=scale)
    got = operators.call(NAME, *given, attn_mask=added, scale=scale)
    for one, other in zip(got, want, strict=True):
        assert_same_tensor(one, other)


def test_masks_of_bool_and_shared_heads(operators: Operators) -> None:
    torch.manual_seed(0)
    query = torch.randn(2, 4, 7, 8, dtype=torch.float64, requires_grad=True)
    key, value = (torch.randn(2, 2, 9, 8, dtype=torch.float64, requires_grad=True) for _ in range(2))
    mask = torch.rand(7, 9) > 0.3
    wide = [x.repeat_interleave(2, 1) for x in (key, value)]
    scores = (query @ wide[0].mT / 8**0.5).masked_fill(~mask, -torch.inf)
    out = scores.softmax(-1) @ wide[1]
    grad = torch.randn_like(out)
    want = torch.autograd.grad(out, (query, key, value), grad)
    got = operators.call(
        NAME, grad, query.detach(), key.detach(), value.detach(), out.detach(), scores.logsumexp(-1).detach(),
        0.0, False, attn_mask=mask,
    )  # fmt: skip
    for one, other in zip(got, want, strict=True):
        torch.testing.assert_close(one, other)


def test_refuses_dropout_by_name(operators: Operators) -> None:
    x = torch.randn(1, 1, 2, 4)
    with pytest.raises(NativeError, match=f"{NAME} failed: dropout is not supported"):
        operators.call(NAME, x, x, x, x, x, x[..., 0], 0.5, False)
