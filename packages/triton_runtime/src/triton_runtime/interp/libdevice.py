"""CUDA's device functions (`__nv_expf` and so on) over numpy arrays.

Floats are computed in double precision and rounded once, so single-precision results are correctly rounded in
most cases; a device's may differ by a few units in the last place.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

import numpy as np

from triton_runtime.interp import special
from triton_runtime.interp.objects import Array

Function = Callable[..., Array]
"""A device function; Triton's tables define its arguments."""

_NEAREST: dict[str, Function] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "sqrt": np.sqrt,
    "rcp": lambda x: 1 / x,
    "rsqrt": lambda x: 1 / np.sqrt(x),
}
"""Arithmetic with rounding to nearest; device functions with other rounding modes are omitted."""


def _of_numpy(names: str, prefix: str = "") -> dict[str, Function]:
    return {prefix + name: getattr(np, name) for name in names.split()}


_FLOATS: dict[str, Function] = {
    **_of_numpy("exp exp2 expm1 log log2 log10 log1p sqrt cbrt floor ceil trunc rint"),
    **_of_numpy("sin cos tan sinh cosh tanh hypot copysign fmod fabs"),
    **_of_numpy("sin cos tan tanh exp log log2 log10", prefix="fast_"),
    "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "asinh": np.arcsinh, "acosh": np.arccosh,
    "atanh": np.arctanh, "atan2": np.arctan2,
    "erf": special.erf, "erfc": special.erfc, "erfcx": special.erfcx, "erfinv": special.erfinv,
    "erfcinv": special.erfcinv, "lgamma": special.lgamma, "normcdf": special.normcdf,
    "normcdfinv": special.normcdfinv,
    "tgamma": special.gamma,
    "nearbyint": np.rint,
    "round": lambda x: np.copysign(np.floor(np.abs(x) + (np.abs(x) < 2.0**52) * 0.5), x),
    "exp10": lambda x: 10.0**x,
    "fast_exp10": lambda x: 10.0**x,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "rcbrt": lambda x: 1 / np.cbrt(x),
    "sinpi": lambda x: _of_half_turns(x, 0.0),
    "cospi": lambda x: _of_half_turns(x, 0.5),
    "pow": np.float_power,
    "powi": lambda x, n: np.float_power(x, n.astype(np.float64)),
    "fast_pow": np.float_power,
    "fdim": lambda x, y: np.where(x > y, x - y, np.where(np.isnan(x) | np.isnan(y), np.nan, 0.0)),
    "remainder": lambda x, y: _remainder(x, y),
    "fma": lambda x, y, z: x * y + z,
    "ldexp": np.ldexp,
    "scalbn": np.ldexp,
    "logb": lambda x: np.where(x == 0, -np.inf, np.where(np.isinf(x), np.inf, np.frexp(x)[1] - 1.0 + 0 * x)),
    "saturate": lambda x: np.where(np.isnan(x), 0.0, np.clip(x, 0.0, 1.0)),
    "rhypot": lambda x, y: 1 / np.hypot(x, y),
    "norm3d": lambda x, y, z: np.hypot(np.hypot(x, y), z),
    "rnorm3d": lambda x, y, z: 1 / np.hypot(np.hypot(x, y), z),
    "norm4d": lambda x, y, z, w: np.hypot(np.hypot(x, y), np.hypot(z, w)),
    "rnorm4d": lambda x, y, z, w: 1 / np.hypot(np.hypot(x, y), np.hypot(z, w)),
    "j0": lambda x: special.bessel_j(0, x),
    "j1": lambda x: special.bessel_j(1, x),
    "y0": lambda x: special.bessel_y(0, x),
    "y1": lambda x: special.bessel_y(1, x),
    "jn": lambda n, x: _by_order(special.bessel_j, n, x),
    "yn": lambda n, x: _by_order(special.bessel_y, n, x),
    "cyl_bessel_i0": np.i0,
    "cyl_bessel_i1": special.bessel_i1,
    "fast_fdivide": lambda x, y: x / y,
    **{f"{letter}{name}_rn": function for letter in "fd" for name, function in _NEAREST.items()},
    "fma_rn": lambda x, y, z: x * y + z,
}  # fmt: skip
"""Functions of floats, in double precision; names without the `f` suffix of single precision."""

_OTHERS: dict[str, Function] = {
    "isnanf": np.isnan, "isnand": np.isnan, "isinff": np.isinf, "isinfd": np.isinf,
    "finitef": np.isfinite, "isfinited": np.isfinite, "signbitf": np.signbit, "signbitd": np.signbit,
    "nextafterf": np.nextafter, "nextafter": np.nextafter,
    "ilogbf": lambda x: np.frexp(x.astype(np.float64))[1] - 1, "ilogb": lambda x: np.frexp(x)[1] - 1,
    "llrintf": np.rint, "llrint": np.rint,
    "llroundf": lambda x: _FLOATS["round"](x.astype(np.float64)), "llround": lambda x: _FLOATS["round"](x),
    "abs": np.abs, "llabs": np.abs,
    "clz": lambda x: _leading_zeros(x), "clzll": lambda x: _leading_zeros(x),
    "popc": lambda x: np.bitwise_count(_unsigned(x)), "popcll": lambda x: np.bitwise_count(_unsigned(x)),
    "brev": lambda x: _reversed_bits(x), "brevll": lambda x: _reversed_bits(x),
    "ffs": lambda x: _first_one(x), "ffsll": lambda x: _first_one(x),
    "mulhi": lambda x, y: _high_half(x, y), "umulhi": lambda x, y: _high_half(x, y),
    "mul64hi": lambda x, y: _high_half(x, y), "umul64hi": lambda x, y: _high_half(x, y),
    "mul24": lambda x, y: _low24(x) * _low24(y), "umul24": lambda x, y: (x & 0xFFFFFF) * (y & 0xFFFFFF),
    "sad": lambda x, y, z: np.abs(x.astype(np.int64) - y) + z,
    "usad": lambda x, y, z: np.abs(x.astype(np.int64) - y.astype(np.int64)) + z,
    **dict.fromkeys(("hadd", "uhadd"), lambda x, y: (x.astype(np.int64) + y.astype(np.int64)) >> 1),
    **dict.fromkeys(("rhadd", "urhadd"), lambda x, y: (x.astype(np.int64) + y.astype(np.int64) + 1) >> 1),
    "rcp64h": lambda x: ((1 / x).view(np.int64) >> 32 << 32).view(np.float64),
    "byte_perm": lambda x, y, s: _byte_perm(x, y, s),
    "int_as_float": lambda x: x.view(np.float32), "uint_as_float": lambda x: x.view(np.float32),
    "float_as_int": lambda x: x.view(np.int32), "float_as_uint": lambda x: x.view(np.int32),
    "longlong_as_double": lambda x: x.view(np.float64), "double_as_longlong": lambda x: x.view(np.int64),
    "double2loint": lambda x: x.view(np.int64).astype(np.int32),
    "double2hiint": lambda x: (x.view(np.int64) >> 32).astype(np.int32),
    "hiloint2double": lambda hi, lo: (
        (hi.astype(np.int64) << 32) | (lo.astype(np.int64) & 0xFFFFFFFF)
    ).view(np.float64),
}  # fmt: skip
"""Functions with other argument or result types, which keep the type of their arguments."""

_CONVERSION = re.compile(r"(float|double|int|uint|ll|ull)2(float|double|int|uint|ll|ull)_(rn|rz|rd|ru)")
_ROUNDED: Mapping[str, Function] = {"rn": np.rint, "rz": np.trunc, "rd": np.floor, "ru": np.ceil}
_WHOLE: Mapping[str, type[np.integer]] = {
    "int": np.int32,
    "uint": np.uint32,
    "ll": np.int64,
    "ull": np.uint64,
}
_TOWARDS: Mapping[str, Callable[[Array], Array]] = {
    "rd": lambda exact: np.full_like(exact, -np.inf),
    "ru": lambda exact: np.full_like(exact, np.inf),
    "rz": lambda exact: np.zeros_like(exact),
}


def names() -> frozenset[str]:
    """Names of all functions except conversions, without `__nv_` and the `f` suffix of single precision."""
    return frozenset({*_FLOATS, *_OTHERS})


def find(symbol: str) -> Function | None:
    """The function of a device symbol such as `__nv_expf`, from arrays to an array to convert to the result
    type.
    """
    name = symbol.removeprefix("__nv_")
    if name in _OTHERS:
        return _OTHERS[name]
    for candidate in (name, name.removesuffix("f"), name.replace("fmaf_", "fma_")):
        if candidate in _FLOATS:
            return _in_double(_FLOATS[candidate])
    if match := _CONVERSION.fullmatch(name):
        return _conversion(*match.groups())
    return None


def _in_double(function: Function) -> Function:
    def compute(*args: Array) -> Array:
        doubles = [a.astype(np.float64) if a.dtype.kind == "f" else a for a in args]
        return np.asarray(function(*doubles))

    return compute


def _conversion(source: str, target: str, mode: str) -> Function | None:
    if target in _WHOLE:
        return lambda x: _saturated(_ROUNDED[mode](x.astype(np.float64)), _WHOLE[target])
    if target == "float" and source in ("double", "int", "uint"):
        return lambda x: _to_single(_as(x, source).astype(np.float64), mode)
    if target == "double" and source in ("int", "uint"):
        return lambda x: _as(x, source).astype(np.float64)
    if mode == "rn":
        return lambda x: _as(x, source).astype(np.float32 if target == "float" else np.float64)
    return None


def _as(x: Array, source: str) -> Array:
    """Converts the signed arguments of Triton's tables to the source type."""
    return x.astype(_WHOLE[source]) if source in _WHOLE else x


def _saturated(x: Array, kind: type[np.integer]) -> Array:
    """Converts doubles to integers of a type: the nearest representable one, 0 for NaN."""
    limits = np.iinfo(kind)
    low, high = float(limits.min), float(limits.max)
    inside = np.where(np.isnan(x) | (x >= high) | (x <= low), 0, x).astype(kind)
    result = np.where(x >= high, kind(limits.max), np.where(x <= low, kind(limits.min), inside))
    return np.where(np.isnan(x), kind(0), result)


def _to_single(exact: Array, mode: str) -> Array:
    """Rounds doubles to single precision in a direction."""
    rounded = exact.astype(np.float32)
    if mode == "rn":
        return rounded
    goal = _TOWARDS[mode](exact)
    back = rounded.astype(np.float64)
    beyond = (
        (back > exact) if mode == "rd" else (back < exact) if mode == "ru" else np.abs(back) > np.abs(exact)
    )
    return np.where(beyond, np.nextafter(rounded, goal.astype(np.float32)), rounded)


def _of_half_turns(x: Array, ahead: float) -> Array:
    """sin(pi * (x + ahead)), exact if x is a multiple of one half."""
    turned = np.fmod(x, 2.0) + ahead
    near = np.rint(2 * turned)
    rest = np.pi * (turned - near / 2)
    quarter = np.mod(np.where(np.isfinite(near), near, 0), 4).astype(np.int64)
    return np.choose(quarter, [np.sin(rest), np.cos(rest), -np.sin(rest), -np.cos(rest)])


def _remainder(x: Array, y: Array) -> Array:
    """IEEE remainder: to the nearest multiple, ties to the even one."""
    rest = np.fmod(x, y)
    size = np.abs(y)
    odd = np.fmod(np.abs(x), 2 * size) >= size
    over = (np.abs(rest) * 2 > size) | ((np.abs(rest) * 2 == size) & odd)
    result = np.where(over, rest - np.copysign(size, rest), rest)
    return np.where(np.isinf(y) & np.isfinite(x), x, np.copysign(result, np.where(result == 0, x, result)))


def _by_order(function: Callable[[int, Array], Array], n: Array, x: Array) -> Array:
    orders, x = np.broadcast_arrays(n, x)
    result = np.zeros(x.shape)
    for order in np.unique(orders):
        result = np.where(orders == order, function(int(order), x), result)
    return result


# --- whole numbers


def _unsigned(x: Array) -> Array:
    return x.view(np.dtype(f"u{x.dtype.itemsize}"))


def _leading_zeros(x: Array) -> Array:
    bits = x.dtype.itemsize * 8
    count = np.vectorize(lambda v: bits - int(v).bit_length(), otypes=[np.int32])
    return np.asarray(count(_unsigned(x)))


def _first_one(x: Array) -> Array:
    find_one = np.vectorize(lambda v: (int(v) & -int(v)).bit_length(), otypes=[np.int32])
    return np.asarray(find_one(_unsigned(x)))


def _reversed_bits(x: Array) -> Array:
    unsigned = _unsigned(x)
    bits = x.dtype.itemsize * 8
    result = np.zeros_like(unsigned)
    for i in range(bits):
        result |= ((unsigned >> unsigned.dtype.type(i)) & unsigned.dtype.type(1)) << unsigned.dtype.type(
            bits - 1 - i
        )
    return result.view(x.dtype)


def _high_half(x: Array, y: Array) -> Array:
    bits = x.dtype.itemsize * 8
    high = np.vectorize(lambda a, b: (int(a) * int(b)) >> bits, otypes=[x.dtype])
    return np.asarray(high(x, y))


def _low24(x: Array) -> Array:
    """The lower 24 bits, as a signed number."""
    return (x << 8) >> 8


def _byte_perm(x: Array, y: Array, selector: Array) -> Array:
    both = (_unsigned(y).astype(np.uint64) << np.uint64(32)) | _unsigned(x).astype(np.uint64)
    positions = _unsigned(selector).astype(np.uint64)
    result = np.zeros_like(both)
    for i in range(4):
        which = (positions >> np.uint64(4 * i)) & np.uint64(7)
        result |= ((both >> (which * np.uint64(8))) & np.uint64(0xFF)) << np.uint64(8 * i)
    return result.astype(np.uint32).view(x.dtype)
