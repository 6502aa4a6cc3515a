"""Floats that numpy lacks, as bits in unsigned integers: bfloat16 and 8-bit types.

Rounding is to nearest, ties to even. Values too large for eight bits become the largest number, as on
devices. NaN stays NaN.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
Bits = npt.NDArray[np.uint8] | npt.NDArray[np.uint16]


@dataclass(frozen=True, slots=True)
class _Format:
    """Eight bits: a sign, a biased exponent, and `mantissa` bits. `fnuz`: no infinity, no -0, one NaN."""

    mantissa: int
    bias: int
    infinite: bool = False
    fnuz: bool = False


FORMATS = {
    "bf16": None,
    "fp8e5": _Format(2, 15, infinite=True),
    "fp8e4nv": _Format(3, 7),
    "fp8e4b8": _Format(3, 8, fnuz=True),
    "fp8e5b16": _Format(2, 16, fnuz=True),
}
"""Types stored as bits, by their names in Triton; bfloat16 needs no table."""


def decode(name: str, bits: Bits) -> Floats:
    """Decodes bits of the type `name`; exact."""
    form = FORMATS[name]
    if form is None:
        return (bits.astype(np.uint32) << 16).view(np.float32)
    return _values(form)[bits]


def encode(name: str, values: npt.NDArray[np.floating]) -> Bits:
    """Encodes `values` as the nearest numbers of the type `name`."""
    form = FORMATS[name]
    single = values.astype(np.float32)
    return _bfloat16(single) if form is None else _small(form, single)


def _bfloat16(values: Floats) -> npt.NDArray[np.uint16]:
    bits = np.ascontiguousarray(values).view(np.uint32)
    rounded = (bits + (0x7FFF + ((bits >> 16) & 1)).astype(np.uint32)) >> 16
    return np.where(np.isnan(values), 0x7FC0, rounded).astype(np.uint16)


def _small(form: _Format, values: Floats) -> npt.NDArray[np.uint8]:
    positive = _positive(form)
    size = np.minimum(np.abs(np.where(np.isnan(values), 0, values)).astype(np.float64), positive[-1])
    above = np.minimum(np.searchsorted(positive, size), len(positive) - 1)
    below = np.maximum(above - 1, 0)
    down, up = size - positive[below], positive[above] - size
    code = np.where((down < up) | ((down == up) & (below % 2 == 0)), below, above)
    negative = np.signbit(values) & ~((code == 0) if form.fnuz else np.zeros_like(code, dtype=bool))
    bits = np.where(negative, code | 0x80, code)
    return np.where(np.isnan(values), 0x80 if form.fnuz else 0x7F, bits).astype(np.uint8)


@cache
def _values(form: _Format) -> Floats:
    """The value of each of the 256 codes."""
    codes = np.arange(256)
    exponent, mantissa = (codes & 0x7F) >> form.mantissa, codes & ((1 << form.mantissa) - 1)
    fraction = mantissa / (1 << form.mantissa)
    size = np.where(
        exponent == 0, fraction * 2.0 ** (1 - form.bias), (1 + fraction) * 2.0 ** (exponent - form.bias)
    )
    values = np.where(codes & 0x80, -size, size)
    if form.fnuz:
        values[0x80] = np.nan
    elif form.infinite:
        top = exponent == (0x7F >> form.mantissa)
        values[top] = np.where(mantissa[top] == 0, np.copysign(np.inf, values[top]), np.nan)
    else:
        values[[0x7F, 0xFF]] = np.nan
    return values.astype(np.float32)


@cache
def _positive(form: _Format) -> npt.NDArray[np.float64]:
    """Finite values of the codes from 0 on, ascending."""
    values = _values(form)[:0x80].astype(np.float64)
    return values[np.isfinite(values)]
