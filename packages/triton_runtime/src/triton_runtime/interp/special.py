"""Special functions in double precision, elementwise over numpy arrays, for those that numpy lacks."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
_SQRT_PI = math.sqrt(math.pi)
# of the trapezoidal rule: enough for arguments up to _FAR
_NODES = 160
# from here on Hankel's expansion is exact to the last bits
_FAR = 30.0


def _each(
    function: Callable[[float], float], outside: Callable[[float], float] | None = None
) -> Callable[[Array], Array]:
    """Applies `function` to every element; `outside` if it raises."""

    def one(x: float) -> float:
        try:
            return function(x)
        except (ValueError, OverflowError):
            return outside(x) if outside else math.nan

    vectorized = np.vectorize(one, otypes=[np.float64])
    return lambda x: np.asarray(vectorized(x), dtype=np.float64) if x.size else x


erf = _each(math.erf)
erfc = _each(math.erfc)
lgamma = _each(math.lgamma, lambda x: math.inf)
gamma = _each(math.gamma, lambda x: math.copysign(math.inf, x) if x == 0 or x > 0 else math.nan)


def normcdf(x: Array) -> Array:
    """The distribution function of the normal distribution."""
    return erfc(-x / math.sqrt(2)) / 2


def erfcinv(y: Array) -> Array:
    """The x with erfc(x) = y, for y in [0, 2]."""
    y = np.asarray(y, dtype=np.float64)
    small = np.where(y > 1, 2 - y, y)  # by symmetry: x >= 0
    inside = (small > 0) & (small <= 1)
    target = np.where(inside, small, 0.5)
    # a rational first guess, then Halley's method, which triples the digits each time
    t = np.sqrt(-2 * np.log(target / 2))
    x = -0.70711 * ((2.30753 + t * 0.27061) / (1 + t * (0.99229 + t * 0.04481)) - t)
    for _ in range(4):
        error = erfc(x) - target
        with np.errstate(all="ignore"):
            step = error / (2 / _SQRT_PI * np.exp(-x * x) - x * error)
        x = np.where(np.isfinite(step), x + step, x)
    x = np.where(y > 1, -x, x)
    ends = np.where(y == 0, np.inf, np.where(y == 2, -np.inf, np.nan))
    return np.where(inside, x, ends)


def erfinv(y: Array) -> Array:
    """The x with erf(x) = y, for y in [-1, 1]."""
    y = np.asarray(y, dtype=np.float64)
    x = np.copysign(erfcinv(1 - np.abs(y)), y)
    # 1 - y has lost the digits of a small y; Newton's method on erf restores them
    small = np.abs(y) < 0.5
    near = np.where(small, np.where(np.isfinite(x), x, 0), 0)
    for _ in range(3):
        near = near - (erf(near) - np.where(small, y, 0)) * _SQRT_PI / 2 * np.exp(near * near)
    return np.where(small, near, x)


def normcdfinv(p: Array) -> Array:
    """The inverse of `normcdf`."""
    return -math.sqrt(2) * erfcinv(2 * p)


def erfcx(x: Array) -> Array:
    """exp(x*x) * erfc(x), without overflow for large x."""
    x = np.asarray(x, dtype=np.float64)
    near = np.where(x < 20, x, 0)
    with np.errstate(over="ignore"):
        product = np.exp(near * near) * erfc(near)
    far = np.where(x < 20, 20, x)
    inverse = 1 / (2 * far * far)
    series = 1 - inverse * (1 - 3 * inverse * (1 - 5 * inverse * (1 - 7 * inverse * (1 - 9 * inverse))))
    return np.where(np.isnan(x), np.nan, np.where(x < 20, product, series / (far * _SQRT_PI)))


def bessel_i1(x: Array) -> Array:
    """The modified Bessel function of the first kind of order 1, by its power series of positive terms."""
    x = np.asarray(x, dtype=np.float64)
    half = np.minimum(np.abs(x), 720.0) / 2
    term = half.copy()
    total = term.copy()
    for k in range(1, 1200):
        term = term * half * half / (k * (k + 1))
        total = total + term
        if not np.any(term > total * 1e-17):
            break
    return np.where(np.isnan(x), np.nan, np.where(np.abs(x) > 713, np.inf, total) * np.sign(x))


def bessel_j(n: int, x: Array) -> Array:
    """The Bessel function of the first kind of order n."""
    x = np.asarray(x, dtype=np.float64)
    size = np.abs(x)
    near = _j_near(n, np.where(size < _FAR, size, 1))
    with np.errstate(invalid="ignore"):
        # a shift by a quarter turn converts Y's expansion to J's
        far = _hankel(n, np.where(size < _FAR, _FAR, size), math.pi / 2)
    result = np.where(size < _FAR, near, np.where(np.isinf(size), 0, far))
    odd = np.where((x < 0) & (n % 2 == 1), -1, 1)
    return np.where(np.isnan(x), np.nan, result * odd)


def bessel_y(n: int, x: Array) -> Array:
    """The Bessel function of the second kind of order n, for x >= 0."""
    x = np.asarray(x, dtype=np.float64)
    inside = x > 0
    size = np.where(inside, x, 1)
    if n > 1:
        result = _upwards(n, size)
    else:
        near = (_y0_near if n == 0 else _y1_near)(np.where(size < _FAR, size, 1))
        with np.errstate(invalid="ignore"):
            far = _hankel(n, np.where(size < _FAR, _FAR, size), 0)
        result = np.where(size < _FAR, near, np.where(np.isinf(size), 0, far))
    return np.where(inside, result, np.where(x == 0, -np.inf, np.nan))


def _upwards(n: int, x: Array) -> Array:
    below, result = bessel_y(0, x), bessel_y(1, x)
    for order in range(1, n):
        below, result = result, 2 * order / x * result - below
    return result


def _j_near(n: int, x: Array) -> Array:
    """Bessel's integral by the trapezoidal rule, which converges geometrically for periodic functions."""
    angles = np.arange(_NODES) * (2 * math.pi / _NODES)
    phase = n * angles - x[..., None] * np.sin(angles)
    return np.asarray(np.cos(phase).mean(axis=-1))


def _y0_near(x: Array) -> Array:
    """Neumann's series over Bessel functions of even order."""
    total = (np.log(x / 2) + np.euler_gamma) * _j_near(0, x)
    for k in range(1, 40):
        total = total - 2 * (-1) ** k * _j_near(2 * k, x) / k
    return np.asarray(2 / math.pi * total)


def _y1_near(x: Array) -> Array:
    """The negated derivative of `_y0_near`."""
    total = _j_near(0, x) / x - (np.log(x / 2) + np.euler_gamma) * _j_near(1, x)
    for k in range(1, 40):
        total = total - (-1) ** k * (_j_near(2 * k - 1, x) - _j_near(2 * k + 1, x)) / k
    return np.asarray(-2 / math.pi * total)


def _hankel(n: int, x: Array, turn: float) -> Array:
    """Hankel's expansion for large x; `turn` is a quarter turn for J, none for Y."""
    p, q = np.ones_like(x), np.zeros_like(x)
    term = np.ones_like(x)
    for k in range(1, 20):
        term = term * (4 * n * n - (2 * k - 1) ** 2) / (8 * k * x)
        sign = -1 if k % 4 in (2, 3) else 1
        if k % 2:
            q = q + sign * term
        else:
            p = p + sign * term
    chi = x - (n / 2 + 0.25) * math.pi + turn
    return np.asarray(np.sqrt(2 / (math.pi * x)) * (p * np.sin(chi) + q * np.cos(chi)))
