"""Decodes elements of tensors as Python numbers from their bytes, without a tensor library."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Sequence

from wrapper_ir import ir

Number = bool | int | float | complex

BLOCK = 4096
"""Number of elements that are decoded, and summed, together."""

_CODES: dict[ir.DType, str] = {
    ir.DType.F64: "d", ir.DType.F32: "f", ir.DType.F16: "e",
    ir.DType.I64: "q", ir.DType.I32: "i", ir.DType.I16: "h", ir.DType.I8: "b",
    ir.DType.U64: "Q", ir.DType.U32: "I", ir.DType.U16: "H", ir.DType.U8: "B", ir.DType.BOOL: "?",
    ir.DType.C32: "e", ir.DType.C64: "f", ir.DType.C128: "d",
}  # fmt: skip
"""Codes of `struct`; for complex numbers, those of their parts."""


def blocks(data: memoryview, dtype: ir.DType) -> Iterator[Sequence[Number]]:
    """Yields the elements of `data` in order, in lists of at most `BLOCK` numbers.

    A byte of `f4e2m1fnx2` contains two numbers, the lower half first.
    """
    step = BLOCK * dtype.itemsize // (2 if dtype is ir.DType.F4E2M1FNX2 else 1)
    for begin in range(0, data.nbytes, step):
        yield decode(data[begin : begin + step], dtype)


def decode(data: memoryview, dtype: ir.DType) -> Sequence[Number]:
    """Returns all elements of `data`, which is little-endian, in order."""
    raw = data.tobytes()
    if dtype is ir.DType.BF16:
        wide = bytearray(2 * len(raw))
        wide[2::4], wide[3::4] = raw[::2], raw[1::2]
        return struct.unpack(f"<{len(raw) // 2}f", wide)
    if dtype is ir.DType.F4E2M1FNX2:
        return [_HALVES[part] for byte in raw for part in (byte & 15, byte >> 4)]
    if dtype in _EIGHT_BITS:
        table = _table(dtype)
        return [table[byte] for byte in raw]
    code = _CODES[dtype]
    parts = struct.unpack(f"<{len(raw) // struct.calcsize(code)}{code}", raw)
    return [complex(*pair) for pair in zip(parts[::2], parts[1::2])] if dtype.is_complex else parts


_HALVES = tuple(sign * x for sign in (1.0, -1.0) for x in (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0))
"""The sixteen values of E2M1 (OCP Microscaling Formats, 5.3.3)."""

_EIGHT_BITS: dict[ir.DType, tuple[int, int]] = {
    ir.DType.F8E4M3FN: (3, 7),
    ir.DType.F8E5M2: (2, 15),
    ir.DType.F8E4M3FNUZ: (3, 8),
    ir.DType.F8E5M2FNUZ: (2, 16),
    ir.DType.F8E8M0FNU: (0, 127),
}
"""Bits of the mantissa and the bias of the exponent (OCP 8-bit Floating Point; `FNUZ`: arXiv 2206.02915)."""


def _table(dtype: ir.DType) -> tuple[float, ...]:
    """Returns the number that each byte encodes."""
    return tuple(_eight_bits(byte, dtype) for byte in range(256))


def _eight_bits(byte: int, dtype: ir.DType) -> float:
    bits, bias = _EIGHT_BITS[dtype]
    if dtype is ir.DType.F8E8M0FNU:
        return math.nan if byte == 255 else math.ldexp(1.0, byte - bias)
    sign, low = (-1.0 if byte & 128 else 1.0), byte & 127
    if byte == 128 and dtype in (ir.DType.F8E4M3FNUZ, ir.DType.F8E5M2FNUZ):
        return math.nan
    if low == 127 and dtype is ir.DType.F8E4M3FN:
        return math.nan
    if low >= 124 and dtype is ir.DType.F8E5M2:
        return sign * math.inf if low == 124 else math.nan
    exponent, mantissa = low >> bits, low & ((1 << bits) - 1)
    if exponent == 0:
        return sign * math.ldexp(mantissa, 1 - bias - bits)
    return sign * math.ldexp(mantissa + (1 << bits), exponent - bias - bits)
