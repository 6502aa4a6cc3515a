"""Element types by their names in the text form of programs, with their codes in DLPack."""

from __future__ import annotations

from typing import NamedTuple


class ElementType(NamedTuple):
    """An element type: DLPack's code, bits and lanes, numpy's type string for its bits, and the name in
    `ml_dtypes` if numpy lacks it.
    """

    code: int
    bits: int
    lanes: int
    bits_as: str
    extension: str = ""


ELEMENT_TYPES = {
    "f64": ElementType(2, 64, 1, "<f8"),
    "f32": ElementType(2, 32, 1, "<f4"),
    "f16": ElementType(2, 16, 1, "<f2"),
    "i64": ElementType(0, 64, 1, "<i8"),
    "i32": ElementType(0, 32, 1, "<i4"),
    "i16": ElementType(0, 16, 1, "<i2"),
    "i8": ElementType(0, 8, 1, "|i1"),
    "u64": ElementType(1, 64, 1, "<u8"),
    "u32": ElementType(1, 32, 1, "<u4"),
    "u16": ElementType(1, 16, 1, "<u2"),
    "u8": ElementType(1, 8, 1, "|u1"),
    "bool": ElementType(6, 8, 1, "|b1"),
    "c64": ElementType(5, 64, 1, "<c8"),
    "c128": ElementType(5, 128, 1, "<c16"),
    "bf16": ElementType(4, 16, 1, "<u2", "bfloat16"),
    "c32": ElementType(5, 32, 1, "<u4", "complex32"),
    "f8e4m3fn": ElementType(10, 8, 1, "|u1", "float8_e4m3fn"),
    "f8e5m2": ElementType(12, 8, 1, "|u1", "float8_e5m2"),
    "f8e4m3fnuz": ElementType(11, 8, 1, "|u1", "float8_e4m3fnuz"),
    "f8e5m2fnuz": ElementType(13, 8, 1, "|u1", "float8_e5m2fnuz"),
    "f8e8m0fnu": ElementType(14, 8, 1, "|u1", "float8_e8m0fnu"),
    "f4e2m1fnx2": ElementType(17, 4, 2, "|u1", "float4_e2m1fn_x2"),
}
