"""Singular vectors, eigenvectors and indefinite factors of the native runtime: the vectors rebuild the matrix."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from tests.native.operator_library import NativeError, Operators, build_operators

pytestmark = pytest.mark.conformance

DTYPES = (torch.float32, torch.float64, torch.complex64, torch.complex128)
SHAPES = ((4, 3), (3, 4), (5, 5), (2, 4, 3), (2, 0, 6, 3), (0, 3), (3, 0), (1, 7), (20, 12), (2, 3, 3))


@pytest.fixture(scope="module")
def operators(tmp_path_factory: pytest.TempPathFactory) -> Operators:
    return build_operators(("spectra", "indefinite"), str(tmp_path_factory.mktemp("spectra")))


def _assert_close(got: Tensor, want: Tensor) -> None:
    tolerance = 1e-10 if got.dtype in (torch.float64, torch.complex128) else 1e-4
    torch.testing.assert_close(got, want.expand_as(got), rtol=tolerance, atol=tolerance)


def _assert_same_layout(got: Tensor, want: Tensor) -> None:
    assert (got.shape, got.dtype) == (want.shape, want.dtype)
    if want.numel() > 1:
        strides = [[s for s, n in zip(t.stride(), t.shape) if n > 1] for t in (got, want)]
        assert strides[0] == strides[1]


def _deficient(x: Tensor) -> Tensor:
    """Makes two rows equal and a column zero."""
    y = x.clone()
    if x.numel() and min(x.shape[-2:]) > 2:
        y[..., 1, :] = y[..., 0, :]
        y[..., 2] = 0
    return y


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_singular_vectors(operators: Operators, shape: tuple[int, ...], dtype: torch.dtype) -> None:
    x = torch.randn(shape, dtype=dtype)
    for y in (x, x.mT, torch.zeros_like(x), _deficient(x)):
        for full in (False, True):
            got = operators.call("aten::_linalg_svd", y, full)
            want = torch.ops.aten._linalg_svd(y, full)
            for a, b in zip(got, want, strict=True):
                _assert_same_layout(a, b)
            u, values, v = got
            k = values.shape[-1]
            _assert_close(values, want[1])
            _assert_close(u[..., :k] * values[..., None, :].to(dtype) @ v[..., :k, :], y)
            _assert_close(u.mH @ u, torch.eye(u.shape[-1], dtype=dtype))
            _assert_close(v @ v.mH, torch.eye(v.shape[-2], dtype=dtype))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [0, 1, 2, 3, 5, 8, 20])
@pytest.mark.parametrize("triangle", ["L", "U"])
def test_eigenvectors(operators: Operators, triangle: str, n: int, dtype: torch.dtype) -> None:
    x = torch.randn(2, n, n, dtype=dtype)
    got = operators.call("aten::_linalg_eigh", x, triangle)
    want = torch.ops.aten._linalg_eigh(x, triangle)
    for a, b in zip(got, want, strict=True):
        _assert_same_layout(a, b)
    values, vectors = got
    below = torch.tril(x if triangle == "L" else x.mH, -1)
    whole = below + below.mH + torch.diag_embed(x.diagonal(dim1=-2, dim2=-1).real).to(dtype)
    _assert_close(values, want[0])
    _assert_close(whole @ vectors, vectors * values[..., None, :].to(dtype))
    _assert_close(vectors.mH @ vectors, torch.eye(n, dtype=dtype))
    alone = operators.call("aten::_linalg_eigh", x, triangle, compute_v=False)[0]
    _assert_close(alone, want[0])


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
@pytest.mark.parametrize("n", [0, 1, 2, 3, 4, 6, 9, 20])
@pytest.mark.parametrize("hermitian", [False, True])
def test_indefinite_factors(operators: Operators, hermitian: bool, n: int, dtype: torch.dtype) -> None:
    for has_zeros in (False, True):
        x = torch.randn(2, n, n, dtype=dtype)
        x = x + (x.mH if hermitian else x.mT)
        if has_zeros and n > 1:
            x.diagonal(dim1=-2, dim2=-1).zero_()
        got = operators.call("aten::linalg_ldl_factor_ex", x, hermitian=hermitian)
        want = torch.ops.aten.linalg_ldl_factor_ex(x, hermitian=hermitian)
        for a, b in zip(got, want, strict=True):
            _assert_same_layout(a, b)
            _assert_close(a, b)
        right = torch.randn(2, n, 3, dtype=dtype)
        for factors, pivots in ((want[0], want[1]), (want[0][0], want[1][0])):
            solved = operators.call("aten::linalg_ldl_solve", factors, pivots, right, hermitian=hermitian)
            wanted = torch.ops.aten.linalg_ldl_solve(factors, pivots, right, hermitian=hermitian)
            _assert_same_layout(solved, wanted)
            _assert_close(solved, wanted)


def test_singular_matrices_have_no_factors(operators: Operators) -> None:
    assert operators.call("aten::linalg_ldl_factor_ex", torch.zeros(3, 3))[2].item() == 1
    with pytest.raises(NativeError, match="the pivot of row 1 is zero"):
        operators.call("aten::linalg_ldl_factor_ex", torch.zeros(3, 3), check_errors=True)


def test_refuses_by_name(operators: Operators) -> None:
    for name, x in (
        ("aten::_linalg_svd", torch.tensor([[math.nan]])),
        ("aten::_linalg_eigh", torch.ones(2, 3)),
    ):
        with pytest.raises(
            NativeError, match=f"{name} failed: (a matrix is not finite|the matrices are not square)"
        ):
            operators.call(name, x)
