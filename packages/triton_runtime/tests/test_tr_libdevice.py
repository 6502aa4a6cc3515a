"""Compares the interpreter's device functions with torch's and Python's, and their table with Triton's."""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest
import torch

from triton_runtime.interp import floats, special
from triton_runtime.interp.libdevice import find

# Any: functions over arrays of any type
Reference = Callable[..., Any]

WIDE = np.concatenate([np.linspace(-30, 30, 601), [0.0, -0.0, 1e-30, -1e-8, 1e8, np.inf, -np.inf, np.nan]])
UNIT = np.concatenate([np.linspace(-1, 1, 401), [1e-12, 1 - 1e-9]])

BY_TORCH: dict[str, tuple[Reference, np.ndarray[Any, Any]]] = {
    **{name: (getattr(torch, name), WIDE) for name in (
        "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt", "rsqrt", "sin", "cos", "tan", "sinh", "cosh",
        "tanh", "asinh", "atan", "floor", "ceil", "trunc", "erf", "erfc", "lgamma")},
    **{name: (getattr(torch, name), UNIT) for name in ("asin", "acos", "atanh", "erfinv")},
    "acosh": (torch.acosh, np.abs(WIDE) + 1),
    "rint": (torch.round, WIDE),
    "nearbyint": (torch.round, WIDE),
    "erfcx": (torch.special.erfcx, np.linspace(-5, 60, 400)),
    "cyl_bessel_i0": (torch.special.i0, np.linspace(-40, 40, 400)),
    "cyl_bessel_i1": (torch.special.i1, np.linspace(-40, 40, 400)),
    "normcdf": (torch.special.ndtr, np.linspace(-8, 8, 400)),
    "normcdfinv": (torch.special.ndtri, np.linspace(0, 1, 401)),
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(BY_TORCH))
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_functions_of_one_number(name: str, dtype: type[np.floating[Any]]) -> None:
    reference, values = BY_TORCH[name]
    inputs = values.astype(dtype)
    function = find(f"__nv_{name}" + ("f" if dtype is np.float32 else ""))
    assert function is not None
    with np.errstate(all="ignore"):
        got = torch.from_numpy(np.asarray(function(inputs)).astype(dtype))
    want = reference(torch.from_numpy(inputs).double()).to(got.dtype)
    rtol, atol = (1e-6 if dtype is np.float32 else 1e-12), 1e-15
    torch.testing.assert_close(got, want, rtol=rtol, atol=atol, equal_nan=True)


BY_PYTHON: dict[str, tuple[Reference, list[tuple[float, ...]]]] = {
    "cbrt": (lambda x: math.copysign(abs(x) ** (1 / 3), x), [(8.0,), (-27.0,), (2.0,)]),
    "exp10": (lambda x: 10.0**x, [(0.0,), (2.5,), (-3.0,)]),
    "round": (
        lambda x: math.copysign(math.floor(abs(x) + 0.5), x),
        [(0.5,), (-0.5,), (1.5,), (2.4,), (-2.5,), (1e20,)],
    ),
    "sinpi": (lambda x: math.sin(math.pi * x), [(0.25,), (1.3,), (-0.1,), (7.75,)]),
    "cospi": (lambda x: math.cos(math.pi * x), [(0.25,), (1.3,), (-0.1,), (7.75,)]),
    "tgamma": (math.gamma, [(0.5,), (4.0,), (-1.5,)]),
    "atan2": (math.atan2, [(1.0, 2.0), (-1.0, -2.0), (0.0, -1.0)]),
    "hypot": (math.hypot, [(3.0, 4.0), (1e200, 1e200)]),
    "copysign": (math.copysign, [(3.0, -0.0), (-3.0, 1.0)]),
    "fmod": (math.fmod, [(7.5, 2.0), (-7.5, 2.0), (7.5, -2.0)]),
    "remainder": (math.remainder, [(7.5, 2.0), (5.0, 2.0), (7.0, 2.0), (-7.0, 2.0), (3.0, -2.0)]),
    "pow": (math.pow, [(2.0, 0.5), (-2.0, 3.0), (0.0, 0.0), (9.0, -0.5)]),
    "fdim": (lambda x, y: max(x - y, 0.0), [(3.0, 1.0), (1.0, 3.0)]),
    "fma": (lambda x, y, z: x * y + z, [(2.0, 3.0, 4.0)]),
    "norm3d": (lambda *a: math.hypot(*a), [(1.0, 2.0, 3.0)]),
    "rnorm4d": (lambda *a: 1 / math.hypot(*a), [(1.0, 2.0, 3.0, 4.0)]),
    "nextafter": (math.nextafter, [(1.0, 2.0), (1.0, 0.0)]),
    "ddiv_rn": (lambda x, y: x / y, [(1.0, 3.0)]),
    "logb": (lambda x: float(math.frexp(x)[1] - 1), [(8.0,), (0.3,), (1e-9,)]),
}


@pytest.mark.parametrize("name", sorted(BY_PYTHON))
def test_functions_that_python_has(name: str) -> None:
    reference, calls = BY_PYTHON[name]
    function = find(f"__nv_{name}")
    assert function is not None
    for args in calls:
        got = float(function(*(np.array([a]) for a in args))[0])
        assert got == pytest.approx(reference(*args), rel=1e-13, abs=1e-15), args


def test_half_turns_are_exact() -> None:
    sine, cosine = find("__nv_sinpi"), find("__nv_cospi")
    assert sine is not None
    assert cosine is not None
    x = np.arange(-8, 8) / 2
    assert set(np.abs(sine(x[::2] * 2))) == {0.0}
    assert set(np.abs(cosine(x[1::2]))) == {0.0}


@pytest.mark.parametrize("order", [0, 1, 2, 5])
def test_bessel_functions(order: int) -> None:
    x = np.concatenate([np.linspace(0.01, 60, 40), [29.999, 30.001, 500.0, 1e5]])
    for got, exact in ((special.bessel_j, mpmath.besselj), (special.bessel_y, mpmath.bessely)):
        want = np.array([float(exact(order, v)) for v in x])
        assert np.max(np.abs(got(order, x) - want) / np.maximum(np.abs(want), 1)) < 1e-14
    assert special.bessel_j(1, np.array([-3.0])) == -special.bessel_j(1, np.array([3.0]))
    assert special.bessel_y(order, np.array([0.0])) == -np.inf
    assert np.isnan(special.bessel_y(order, np.array([-1.0])))


@pytest.mark.parametrize("name", ["erfinv", "erfcinv"])
def test_inverses(name: str) -> None:
    y = np.array([1e-300, 1e-20, 1e-5, 0.2, 0.5, 0.9, 0.999999])
    function = find(f"__nv_{name}")
    assert function is not None
    forward = special.erf if name == "erfinv" else special.erfc
    assert np.allclose(forward(function(y)), y, rtol=1e-12)


WHOLE = np.array([0, 1, -1, 5, -6, 255, 2**30, -(2**31), 2**31 - 1, 0x12345678], dtype=np.int64)


@pytest.mark.parametrize("bits", [32, 64])
def test_whole_numbers(bits: int) -> None:
    values = WHOLE.astype(f"int{bits}") if bits == 32 else np.concatenate([WHOLE, [2**62 + 1, -(2**63)]])
    suffix = "" if bits == 32 else "ll"
    mask = (1 << bits) - 1
    texts = [format(int(v) & mask, f"0{bits}b") for v in values]

    def run(name: str, *args: np.ndarray[Any, Any]) -> list[int]:
        function = find(f"__nv_{name}")
        assert function is not None
        return [int(v) for v in function(*args)]

    assert run(f"clz{suffix}", values) == [bits - len(t.lstrip("0")) for t in texts]
    assert run(f"popc{suffix}", values) == [t.count("1") for t in texts]
    assert run(f"ffs{suffix}", values) == [t[::-1].find("1") + 1 for t in texts]
    assert [v & mask for v in run(f"brev{suffix}", values)] == [int(t[::-1], 2) for t in texts]
    high = "mulhi" if bits == 32 else "mul64hi"
    assert run(high, values, values[::-1]) == [
        (int(a) * int(b)) >> bits for a, b in zip(values, values[::-1])
    ]


@pytest.mark.parametrize(
    ("name", "inputs", "want"),
    [
        ("double2int_rn", [2.5, -2.5, 1e20, -1e20, math.nan], [2, -2, 2**31 - 1, -(2**31), 0]),
        ("double2int_rz", [2.9, -2.9], [2, -2]),
        ("double2int_rd", [2.9, -2.1], [2, -3]),
        ("double2int_ru", [2.1, -2.9], [3, -2]),
        ("double2uint_rz", [-1.0, 4e9], [0, 4_000_000_000]),
        ("double2ll_rn", [1e10 + 0.5, 1e300], [10_000_000_000, 2**63 - 1]),
        ("llrint", [0.5, 1.5, -0.5], [0, 2, 0]),
        ("llround", [0.5, 1.5, -0.5], [1, 2, -1]),
        ("isnand", [math.nan, 1.0], [True, False]),
        ("isinfd", [math.inf, 1.0], [True, False]),
        ("signbitd", [-0.0, 1.0], [True, False]),
        ("ilogb", [8.0, 0.3], [3, -2]),
    ],
)
def test_numbers_become_whole(name: str, inputs: list[float], want: list[int]) -> None:
    function = find(f"__nv_{name}")
    assert function is not None
    assert list(function(np.array(inputs))) == want


def test_single_precision_in_every_direction() -> None:
    exact = np.array([0.1, -0.1, 1 / 3, 1.0])
    for mode, holds in {"rd": np.less_equal, "ru": np.greater_equal}.items():
        function = find(f"__nv_double2float_{mode}")
        assert function is not None
        got = function(exact).astype(np.float64)
        assert holds(got, exact).all()
        assert (np.abs(got - exact) <= np.abs(np.spacing(exact.astype(np.float32)))).all()


def test_every_function_of_tritons_table_is_here_or_rounds_in_a_direction() -> None:
    from triton.language.extra.cuda import libdevice

    symbols = set(re.findall(r'"(__nv_\w+)"', inspect.getsource(libdevice)))
    assert len(symbols) > 250
    missing = {s for s in symbols if find(s) is None}
    assert all(re.search(r"_r[zdu]$", s) for s in missing), missing
    assert find("__nv_no_such_function") is None


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        ("fp8e5", torch.float8_e5m2),
        ("fp8e4nv", torch.float8_e4m3fn),
        ("fp8e4b8", torch.float8_e4m3fnuz),
        ("fp8e5b16", torch.float8_e5m2fnuz),
    ],
)
def test_floats_of_eight_bits_are_torchs(name: str, dtype: torch.dtype) -> None:
    """All codes, all midpoints of neighbours, and many other numbers, all in range: devices saturate beyond
    it.
    """
    codes = np.arange(256, dtype=np.uint8)
    values = floats.decode(name, codes)
    want = torch.from_numpy(codes).view(dtype).float().numpy()
    assert np.array_equal(values, want, equal_nan=True)
    finite = want[np.isfinite(want)]
    random = np.random.default_rng(0)
    many = random.standard_normal(20_000) * np.exp(random.uniform(-14, 6, 20_000))
    inputs = np.concatenate([finite, (finite[:-1] + finite[1:]) / 2, many]).astype(np.float32)
    inputs = inputs[np.abs(inputs) <= finite.max()]
    assert np.array_equal(
        floats.encode(name, inputs), torch.from_numpy(inputs).to(dtype).view(torch.uint8).numpy()
    )
    beyond = floats.encode(name, np.array([1e30, -1e30, np.inf, np.nan], dtype=np.float32))
    assert floats.decode(name, beyond)[:3].tolist() == [finite.max(), -finite.max(), finite.max()]
    assert np.isnan(floats.decode(name, beyond)[3])


def test_bfloat16_is_torchs() -> None:
    bits = np.random.default_rng(1).integers(0, 2**32, 50_000, dtype=np.uint64).astype(np.uint32)
    values = bits.view(np.float32)
    got = floats.encode("bf16", values)
    want = torch.from_numpy(values).bfloat16()
    inputs = torch.from_numpy(got.view(np.int16)).view(torch.bfloat16)
    assert torch.equal(inputs.isnan(), want.isnan())
    assert torch.equal(inputs.nan_to_num(0, torch.inf, -torch.inf), want.nan_to_num(0, torch.inf, -torch.inf))
    assert np.array_equal(floats.decode("bf16", got), inputs.float().numpy(), equal_nan=True)
