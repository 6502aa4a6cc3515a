"""Attention of the native runtime, against eager in float64."""

from __future__ import annotations

import ctypes
import math
from typing import Any

import pytest
import torch
from hypothesis import given
from torch import Tensor, nn

from inductor_frontend import capture
from tests.native.attention_cases import DTYPES, TOLERANCES, Case, cases
from tests.native.levels import LEVELS, flags_of
from tests.native.native_case import build_native
from tests.native.operator_library import NativeError, Operators, build_operators

_FLASH = "aten::_scaled_dot_product_flash_attention_for_cpu"
_OUT = "wrapper_ir::attention.out"
_eager = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu


@pytest.fixture(scope="module", params=LEVELS)
def operators(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Operators:
    folder = tmp_path_factory.mktemp(request.param)
    return build_operators(("attention",), str(folder), flags_of(request.param))


def flash(operators: Operators, case: Case, **others: Any) -> tuple[Tensor, Tensor]:
    options = {"is_causal": case.is_causal, "attn_mask": case.mask, "scale": case.scale} | others
    found: tuple[Tensor, Tensor] = operators.call(_FLASH, case.query, case.key, case.value, **options)
    return found


def into(operators: Operators, case: Case, out: Tensor) -> Tensor:
    operators.call(_OUT, case.query, case.key, case.value, case.is_causal, case.mask, case.scale, out=out)
    return out


def assert_near(found: Tensor, expected: Tensor, dtype: torch.dtype) -> None:
    tolerance = TOLERANCES[dtype]
    torch.testing.assert_close(found.double(), expected, rtol=tolerance, atol=tolerance)


@pytest.mark.slow
@given(case=cases())
def test_any_call_equals_eager_in_double(operators: Operators, case: Case) -> None:
    expected, sums = case.expected()
    found, logsumexp = flash(operators, case)
    assert_near(found, expected, case.query.dtype)
    assert_near(logsumexp, sums, case.query.dtype)
    assert found.stride() == torch.empty_like(case.query).stride()
    positions_first = torch.empty(logsumexp.transpose(1, 2).shape).transpose(1, 2)
    assert logsumexp.stride() == positions_first.stride()
    memory = torch.full((*case.query.shape[:3], 2 * case.query.size(3)), 7.0, dtype=case.query.dtype)
    assert torch.equal(into(operators, case, memory[..., 1::2]), found)
    assert bool((memory[..., ::2] == 7).all())


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("is_causal", [False, True])
def test_results_and_layouts_equal_the_operator_of_torch(
    operators: Operators, dtype: torch.dtype, is_causal: bool
) -> None:
    query, key, value = (torch.randn(2, 5, 3, 20, dtype=dtype).transpose(1, 2) for _ in range(3))
    found, logsumexp = flash(operators, Case(query, key, value, is_causal))
    expected, sums = _eager(query, key, value, 0.0, is_causal)
    assert (found.dtype, logsumexp.dtype) == (expected.dtype, sums.dtype)
    assert (found.stride(), logsumexp.stride()) == (expected.stride(), sums.stride())
    assert_near(found, expected.double(), dtype)
    assert_near(logsumexp, sums.double(), dtype)


@pytest.mark.parametrize("width", [1, 7, 32, 80])
@pytest.mark.parametrize("keys", [1, 33, 300])
@pytest.mark.parametrize("is_causal", [False, True])
def test_many_rows_of_bfloat16(operators: Operators, width: int, keys: int, is_causal: bool) -> None:
    """Numbers of a head and keys in pairs, with one left over."""
    query = torch.randn(2, 4, 45, width).bfloat16()
    key, value = (torch.randn(2, 2, keys, width).bfloat16() for _ in range(2))
    case = Case(query, key, value, is_causal)
    expected, sums = case.expected()
    found, logsumexp = flash(operators, case)
    assert_near(found, expected, torch.bfloat16)
    assert_near(logsumexp, sums, torch.bfloat16)
    spread = torch.stack([value, torch.full_like(value, math.nan)], -1)[..., 0]
    assert torch.equal(flash(operators, Case(query, key, spread, is_causal))[0], found)


def test_keys_that_no_row_sees_are_not_read(operators: Operators) -> None:
    """The last visible key has no partner in a pair."""
    query, key = torch.randn(1, 1, 41, 16).bfloat16(), torch.randn(1, 1, 50, 16).bfloat16()
    key[:, :, 41:] = math.nan
    found = flash(operators, Case(query, key, key, is_causal=True))[0]
    assert bool(found.isfinite().all())


@pytest.mark.parametrize("queries", [3, 40])
def test_rows_without_keys_are_zero(operators: Operators, queries: int) -> None:
    query, key = torch.randn(1, 2, queries, 16), torch.randn(1, 2, 6, 16)
    mask = torch.zeros(queries, 6)
    mask[1] = -math.inf
    case = Case(query, key, key, mask=mask)
    found, logsumexp = flash(operators, case)
    assert not found[:, :, 1].any()
    assert not logsumexp[:, :, 1].any()
    expected, sums = _eager(query, key, key, attn_mask=mask)
    torch.testing.assert_close((found, logsumexp), (expected, sums))


@pytest.mark.parametrize("queries", [3, 40])
def test_a_row_of_the_lowest_numbers_averages(operators: Operators, queries: int) -> None:
    """Models hide keys by the lowest finite number, also all keys of padded rows."""
    query, key = torch.randn(1, 1, queries, 16), torch.randn(1, 1, 6, 16)
    mask = torch.zeros(1, 1, queries, 6)
    mask[:, :, 0] = torch.finfo(torch.float32).min
    found, logsumexp = flash(operators, Case(query, key, key, mask=mask))
    expected, sums = _eager(query, key, key, attn_mask=mask)
    torch.testing.assert_close((found, logsumexp), (expected, sums))


@pytest.mark.parametrize("dtype", DTYPES)
def test_no_keys_no_queries_and_no_batch(operators: Operators, dtype: torch.dtype) -> None:
    for batch, queries, keys in ((2, 3, 0), (2, 30, 0), (2, 0, 3), (0, 3, 3)):
        query, key = (
            torch.randn(batch, 2, queries, 8, dtype=dtype),
            torch.randn(batch, 2, keys, 8, dtype=dtype),
        )
        found, logsumexp = flash(operators, Case(query, key, key))
        assert found.shape == query.shape
        assert not found.any()
        assert not logsumexp.any()


@pytest.mark.parametrize("queries", [1, 20])
def test_values_may_have_another_size_in_the_out_variant(operators: Operators, queries: int) -> None:
    query, key, value = torch.randn(2, 4, queries, 16), torch.randn(2, 2, 9, 16), torch.randn(2, 2, 9, 24)
    case = Case(query, key, value, mask=torch.rand(2, 1, queries, 9) < 0.7)
    assert_near(into(operators, case, torch.empty(2, 4, queries, 24)), case.expected()[0], torch.float32)


def test_numbers_that_are_not_finite_stay_visible(operators: Operators) -> None:
    for queries in (2, 20):
        query, key = torch.randn(1, 1, queries, 16), torch.randn(1, 1, 6, 16)
        query[0, 0, 1] = math.nan
        found = flash(operators, Case(query, key, key))[0]
        assert bool(found[0, 0, 1].isnan().all())
        assert bool(found[0, 0, 0].isfinite().all())


def test_threads_do_not_change_results(operators: Operators) -> None:
    openmp = ctypes.CDLL("libgomp.so.1")
    query, key = torch.randn(2, 6, 100, 32), torch.randn(2, 3, 300, 32)
    found = []
    before = openmp.omp_get_max_threads()
    try:
        for threads in (1, 2, 3):
            openmp.omp_set_num_threads(threads)
            found.append(flash(operators, Case(query, key, key, is_causal=True))[0])
    finally:
        openmp.omp_set_num_threads(before)
    assert torch.equal(found[0], found[1])
    assert torch.equal(found[0], found[2])


_Q = torch.randn(2, 4, 3, 8)
_K = torch.randn(2, 2, 5, 8)
REFUSED: list[tuple[Case, str]] = [
    (Case(_Q[0], _K, _K), "need 4 dimensions"),
    (Case(_Q, _K.double(), _K), "different element types"),
    (Case(_Q, _K[:1], _K[:1]), "different batches"),
    (Case(_Q, _K, _K[:, :, :4]), "different numbers of heads or positions"),
    (Case(_Q, _K[..., :4], _K), "heads of query and key have different sizes"),
    (Case(_Q[:, :3], _K, _K), "not a multiple"),
    (Case(_Q, _K, _K, mask=torch.zeros(3, 4)), "cannot be broadcast"),
    (Case(_Q, _K, _K, mask=torch.zeros(3, 5, dtype=torch.int64)), "neither bool nor floating-point"),
    (Case(_Q, _K, _K, mask=torch.zeros(1, 1, 1, 3, 5)), "more than 4 dimensions"),
    (Case(_Q, _K, _K[..., :4]), "heads of key and value have different sizes"),
    (Case(_Q.int(), _K.int(), _K.int()), "attention"),
]


@pytest.mark.parametrize(("case", "message"), REFUSED)
def test_unsupported_arguments_are_refused(operators: Operators, case: Case, message: str) -> None:
    with pytest.raises(NativeError, match=message):
        flash(operators, case)


def test_dropout_and_other_memory_are_refused(operators: Operators) -> None:
    case = Case(_Q, _K, _K)
    with pytest.raises(NativeError, match="dropout is not supported"):
        flash(operators, case, dropout_p=0.5)
    for out in (torch.empty(2, 4, 3, 4), torch.empty(2, 4, 3, 8, dtype=torch.float64)):
        with pytest.raises(NativeError, match="`out` has another shape or element type"):
            into(operators, case, out)


class Attention(nn.Module):
    def forward(self, query: Tensor, key: Tensor, mask: Tensor) -> Tensor:
        attended: Tensor = nn.functional.scaled_dot_product_attention(query, key, key, mask)
        return attended


@pytest.mark.slow
def test_a_captured_model_runs_in_a_native_library(tmp_path: Any) -> None:
    args = (torch.randn(2, 4, 9, 16), torch.randn(2, 4, 13, 16), torch.rand(2, 1, 9, 13) < 0.8)
    library = build_native(capture(Attention(), args), tmp_path)
    (found,) = library(args)
    torch.testing.assert_close(found, Attention()(*args))
