"""Linear layers with int8 weights of the native runtime, against the operator in torch."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from cpp_wrapper.kernels.isa import ISAS, host_features
from tests.native.levels import GENERIC, flags_of
from tests.native.operator_library import NativeError, Operators, build_operators
from wrapper_ir.operators.native import ACTIVATIONS, INT8_LINEAR, PACKED_INT8_LINEAR, ROUNDINGS
from wrapper_ir_torch.operators import resolve

pytestmark = pytest.mark.slow  # compiles the operators for each instruction set
_LEVELS = [
    name for name in ("avx512", "avx2", GENERIC) if name == GENERIC or ISAS[name].needs <= host_features()
]
_TOLERANCES = {"exact": 1e-6, "int8": 1e-6, "fixed": 2**-16}
_NONE = ("none", 0.0, 0.0)


@lru_cache
def _library(level: str) -> Operators:
    with tempfile.TemporaryDirectory() as folder:  # a loaded library needs no file
        return build_operators(("int8_linear",), folder, flags_of(level))


@pytest.fixture(params=_LEVELS)
def native(request: pytest.FixtureRequest) -> Operators:
    return _library(request.param)


def _in_torch() -> Callable[..., Tensor]:
    """Returns the operator in torch."""
    call: Any = resolve(INT8_LINEAR).call()  # Any: of any operator
    function: Callable[..., Tensor] = call
    return function


def _packed(weight: Tensor) -> Tensor:
    columns, depth = weight.shape
    padded = F.pad(weight.t(), (0, -columns % 16, 0, -depth % 4))
    sizes = (padded.size(0) // 4, 4, padded.size(1) // 16, 16)
    return padded.reshape(sizes).permute(2, 0, 3, 1).contiguous()


def _operands(m: int, n: int, k: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Returns rows with large and small magnitudes, a weight, its scales and a bias."""
    generator = torch.Generator().manual_seed(m + n + k)
    rows = torch.randn(m, k, generator=generator) * torch.logspace(-3, 3, max(m, 1))[:m, None]
    weight = torch.randint(-128, 128, (n, k), dtype=torch.int8, generator=generator)
    return rows, weight, torch.rand(n, generator=generator) / 100, torch.randn(n, generator=generator)


def _check(got: Tensor, want: Tensor, rows: Tensor, rounding: str) -> None:
    """Compares results of rows of floats by the largest sum that a row may have, with scales of 0.01."""
    largest = rows.abs().amax(1, keepdim=True) if rows.numel() else torch.zeros(rows.size(0), 1)
    size = (largest * rows.size(1)).clamp(min=10)
    torch.testing.assert_close(got / size, want / size, rtol=0, atol=_TOLERANCES[rounding])


@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize(
    ("n", "k"), [(1, 1), (16, 64), (18, 20), (64, 3), (100, 130), (48, 0), (0, 8), (33, 1100)]
)
def test_layers(native: Operators, rounding: str, n: int, k: int) -> None:
    """All numbers of rows up to three tiles and many, with and without scales, a bias and packed weights."""
    call = _in_torch()
    for m in (0, 1, 2, 3, 4, 5, 7, 8, 9, 13, 16, 17, 40):
        rows, weight, scales, bias = _operands(m, n, k)
        for pair in ((scales, bias), (None, None), (scales, None)):
            by = rows if pair[0] is not None else rows * 100
            want = call(rows, weight, pair[0], None, pair[1], rounding, "clamp", -3.0, 4e4)
            end = (rounding, "clamp", -3.0, 4e4)
            _check(
                native.call(INT8_LINEAR.name, rows, weight, pair[0], None, pair[1], *end), want, by, rounding
            )
            out = torch.full((m, n), torch.nan)
            native.call(
                PACKED_INT8_LINEAR.name, rows, _packed(weight), pair[0], None, pair[1], n, *end, out=out
            )
            _check(out, want, by, rounding)


@pytest.mark.parametrize("m", [1, 6, 7, 8, 50])
@pytest.mark.parametrize("has_scales", [False, True])
def test_rows_of_integers(native: Operators, m: int, has_scales: bool) -> None:
    """Sums are exact; rows have scales or none."""
    _, weight, scales, bias = _operands(m, 40, 70)
    rows = torch.randint(-128, 128, (m, 70), dtype=torch.int8)
    row_scales = torch.rand(m, 1) if has_scales else None
    out = torch.empty(m, 40)
    native.call(
        PACKED_INT8_LINEAR.name, rows, _packed(weight), scales, row_scales, bias, 40, "exact", *_NONE, out=out
    )
    sums = (rows.int() @ weight.int().t()).float()
    want = (sums if row_scales is None else sums * row_scales) * scales + bias
    torch.testing.assert_close(out, want)
    native.call(
        PACKED_INT8_LINEAR.name, rows, _packed(weight), None, None, None, 40, "exact", *_NONE, out=out
    )
    assert torch.equal(out, sums)


def test_rounded_rows_are_torchaos(native: Operators) -> None:
    """Weights of one give sums of the rounded rows: halves are rounded to even, and 127.5 to 127."""
    rows = torch.tensor([[127.5, -127.5, 0.5, 1.5, 2.5, -0.5], [1e-9, 0.0, 0.0, 0.0, 0.0, 0.0], [0.0] * 6])
    weight = torch.eye(6, dtype=torch.int8)
    got = native.call(INT8_LINEAR.name, rows, weight, None, None, None, "int8", *_NONE)
    assert got[0].tolist() == [127.0, -128.0, 0.0, 2.0, 2.0, 0.0]
    assert not got[1:].any()


@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize("m", [1, 5, 20])
@pytest.mark.parametrize("value", [torch.nan, torch.inf, -torch.inf])
def test_rows_that_are_not_finite(native: Operators, rounding: str, m: int, value: float) -> None:
    """Other rows have their results. A row that is not finite has none with rounded rows."""
    rows, weight, scales, bias = _operands(m, 24, 40)
    rows[m // 2, 17] = value
    args = (rows, weight, scales, None, bias, rounding, *_NONE)
    got, want = native.call(INT8_LINEAR.name, *args), _in_torch()(*args)
    assert torch.equal(got[m // 2].isfinite(), want[m // 2].isfinite())
    if rounding == "int8":
        assert got[m // 2].isnan().all()
    keep = torch.arange(m) != m // 2
    _check(got[keep], want[keep], rows[keep], rounding)


@pytest.mark.parametrize("value", [1e-38, 1e-33, 3e38])
def test_fixed_rows_of_any_magnitude(native: Operators, value: float) -> None:
    weight, rows = torch.eye(16, dtype=torch.int8), torch.linspace(-1, 1, 16).expand(3, 16) * value
    got = native.call(INT8_LINEAR.name, rows, weight, None, None, None, "fixed", *_NONE)
    torch.testing.assert_close(got, rows.contiguous(), rtol=0, atol=value * 1e-4)


@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("m", [3, 40])
def test_activations(native: Operators, rounding: str, activation: str, m: int) -> None:
    rows, weight, scales, bias = _operands(m, 50, 33)
    args = (rows / 100, weight, scales, None, bias, rounding, activation, -0.5, 2.0)
    _check(native.call(INT8_LINEAR.name, *args), _in_torch()(*args), rows, rounding)


@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize("m", [4, 40])
def test_strides_and_overlaps(native: Operators, rounding: str, m: int) -> None:
    """Operands and results of any strides; a result over the rows, the scales and the bias."""
    rows, weight, scales, bias = _operands(m, 24, 24)
    packed, call = _packed(weight), _in_torch()
    base = torch.zeros(2 * m, 2 * 24)
    for view in (base[::2, ::2], base[:m, 24:], base.t()[:24, :m].t()):
        view.copy_(rows)
        want = call(rows, weight, scales, None, bias, rounding)
        out = torch.zeros(2 * m, 2 * 24)
        result = out[1::2, ::2]
        native.call(
            PACKED_INT8_LINEAR.name, view, packed, scales, None, bias, 24, rounding, *_NONE, out=result
        )
        _check(result, want, rows, rounding)
        assert not out[::2].any()
        assert not out[1::2, 1::2].any()
        native.call(PACKED_INT8_LINEAR.name, view, packed, scales, None, bias, 24, rounding, *_NONE, out=view)
        _check(view, want, rows, rounding)
    shared = torch.zeros(m + 2, 24)
    shared[0], shared[1] = scales, bias
    native.call(
        PACKED_INT8_LINEAR.name,
        rows,
        packed,
        shared[0],
        None,
        shared[1],
        24,
        rounding,
        *_NONE,
        out=shared[:m],
    )
    _check(shared[:m], call(rows, weight, scales, None, bias, rounding), rows, rounding)


X, W, Q = torch.ones(3, 8), torch.ones(24, 8, dtype=torch.int8), torch.ones(3, 8, dtype=torch.int8)


@pytest.mark.parametrize(
    ("text", "args"),
    [
        ("the sizes of its arguments", (torch.ones(3, 7), W, None, None, None)),
        ("the sizes of its arguments", (torch.ones(8), W, None, None, None)),
        ("no code for element type", (X.double(), W, None, None, None)),
        ("no code for element type", (X, W.float(), None, None, None)),
        ("a number for each column", (X, W, torch.ones(23), None, None)),
        ("a number for each column", (X, W, None, None, torch.ones(1, 24))),
        ("only rows of integers have scales", (X, W, None, torch.ones(3), None)),
        ("a number for each row", (Q, W, None, torch.ones(1, 3), None)),
        ("a number for each row", (Q, W, None, torch.ones(4), None)),
        ("rows of integers are not rounded", (Q, W, None, None, None, "int8")),
        ("the kind of rows is not one of exact, fixed, int8", (X, W, None, None, None, "int4")),
        ("the activation is not one of", (X, W, None, None, None, "exact", "tanh")),
    ],
)
def test_refusals(native: Operators, text: str, args: tuple[object, ...]) -> None:
    rest = ("exact", *_NONE)[len(args) - 5 :]
    with pytest.raises(NativeError, match=f"{INT8_LINEAR.name} failed: .*{text}|{text}"):
        native.call(INT8_LINEAR.name, *args, *rest)


def test_packed_weights_of_other_sizes(native: Operators) -> None:
    with pytest.raises(NativeError, match=r"packed_int8_linear\.out failed: the sizes of its arguments"):
        native.call(
            PACKED_INT8_LINEAR.name,
            X,
            _packed(W),
            None,
            None,
            None,
            40,
            "exact",
            *_NONE,
            out=torch.empty(3, 40),
        )
    with pytest.raises(NativeError, match="no code for element type"):
        native.call(
            PACKED_INT8_LINEAR.name, X, _packed(W), None, None, None, 24, "exact", *_NONE,
            out=torch.empty(3, 24, dtype=torch.float64),
        )  # fmt: skip
