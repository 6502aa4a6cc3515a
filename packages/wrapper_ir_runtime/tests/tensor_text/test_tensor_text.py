"""Tensors as text: whole ones, statistics, every element type, and digits that read back."""

from __future__ import annotations

import ctypes
import math
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wrapper_ir import ir
from wrapper_ir_runtime.tensor_text import (
    TensorView,
    decode,
    number_text,
    scalar_text,
    statistic_text,
    summarize,
    tensor_lines,
)
from wrapper_ir_runtime.tensor_text.elements import BLOCK


def view(dtype: ir.DType, code: str, *values: float, sizes: tuple[int, ...] | None = None) -> TensorView:
    data = memoryview(struct.pack(f"<{len(values)}{code}", *values))
    sizes = (len(values),) if sizes is None else sizes
    strides = tuple(math.prod(sizes[i + 1 :]) for i in range(len(sizes)))
    return TensorView(dtype=dtype, sizes=sizes, strides=strides, device="cpu", data=data)


@pytest.mark.parametrize(
    ("tensor", "lines"),
    [
        (
            view(ir.DType.F32, "f", 1, 0.1, -0.0, math.nan, math.inf, -2.5, sizes=(2, 3)),
            ["f32[2, 3] strides [3, 1] on cpu", "[[1, 0.1, -0],", " [nan, inf, -2.5]]"],
        ),
        (view(ir.DType.F64, "d", 0.1, sizes=()), ["f64[] strides [] on cpu", "0.1"]),
        (view(ir.DType.F32, "f", 16777217.0, sizes=(1,)), ["f32[1] strides [1] on cpu", "[16777216]"]),
        (view(ir.DType.I64, "q", sizes=(0, 3)), ["i64[0, 3] strides [3, 1] on cpu", "[]"]),
        (view(ir.DType.U64, "Q", 2**64 - 1), ["u64[1] strides [1] on cpu", "[18446744073709551615]"]),
        (view(ir.DType.BOOL, "?", True, False), ["bool[2] strides [1] on cpu", "[True, False]"]),
        (view(ir.DType.C64, "f", 1, -2, 0, 3, sizes=(2,)), ["c64[2] strides [1] on cpu", "[1-2j, 0+3j]"]),
        (view(ir.DType.C32, "e", 1, -0.0, sizes=(1,)), ["c32[1] strides [1] on cpu", "[1-0j]"]),
        (view(ir.DType.BF16, "H", 0x3F80, 0xFF80), ["bf16[2] strides [1] on cpu", "[1, -inf]"]),
        (
            view(ir.DType.F8E4M3FN, "B", 0x38, 0xFE, 0x7F),
            ["f8e4m3fn[3] strides [1] on cpu", "[1, -448, nan]"],
        ),
        (view(ir.DType.F8E8M0FNU, "B", 128, 255), ["f8e8m0fnu[2] strides [1] on cpu", "[2, nan]"]),
        (view(ir.DType.F4E2M1FNX2, "B", 0xF2), ["f4e2m1fnx2[1] strides [1] on cpu", "[(1, -6)]"]),
        (
            view(ir.DType.I32, "i", *range(4), sizes=(2, 1, 2)),
            ["i32[2, 1, 2] strides [2, 2, 1] on cpu", "[[[0, 1]],", " [[2, 3]]]"],
        ),
    ],
    ids=lambda x: x.dtype.value if isinstance(x, TensorView) else None,
)
def test_whole(tensor: TensorView, lines: list[str]) -> None:
    assert list(tensor_lines(tensor)) == lines


@pytest.mark.parametrize(
    ("tensor", "line"),
    [
        (
            view(ir.DType.F32, "f", *range(63), math.nan, -math.inf),
            "mean 31, min 0, max 62, std 18.3303, nan 1, inf 1",
        ),
        (view(ir.DType.F32, "f", *[math.nan] * 65), "nan 65, inf 0"),
        (view(ir.DType.F32, "f", 2, *[math.inf] * 64), "mean 2, min 2, max 2, std nan, nan 0, inf 64"),
        (
            view(ir.DType.BOOL, "?", *[True] * 13, *[False] * 52),
            "mean 0.2, min False, max True, std 0.403113, nan 0, inf 0",
        ),
        (
            view(ir.DType.I64, "q", 2**62, *[0] * 64),
            "mean 7.0949e+16, min 0, max 4611686018427387904, std 5.72009e+17, nan 0, inf 0",
        ),
        (
            view(ir.DType.C64, "f", *[3, 4] * 65, sizes=(65,)),
            "mean 3+4j, min abs 5, max abs 5, std 0, nan 0, inf 0",
        ),
    ],
)
def test_statistics(tensor: TensorView, line: str) -> None:
    head, found = tensor_lines(tensor)
    assert head == f"{tensor.dtype.value}[65] strides [1] on cpu, 65 elements"
    assert found == line


def test_up_to_64_elements_are_whole() -> None:
    assert "mean" not in tensor_lines(view(ir.DType.U8, "B", *range(64)))[1]
    assert "mean 32" in tensor_lines(view(ir.DType.U8, "B", *range(65)))[1]


def test_the_sum_is_that_of_the_stated_order() -> None:
    values = [1e16 if i % 7 == 0 else 1.0 / (i + 1) for i in range(3 * BLOCK // 2)]
    blocks = [values[:BLOCK], values[BLOCK:] + [0.0] * (BLOCK // 2)]
    total = 0.0
    for block in blocks:
        while len(block) > 1:
            block = [block[i] + block[i + len(block) // 2] for i in range(len(block) // 2)]
        total += block[0]
    data = memoryview(struct.pack(f"<{len(values)}d", *values))
    assert summarize(data, ir.DType.F64).mean == total / len(values)


@pytest.mark.parametrize("dtype", ir.DType)
def test_all_patterns_of_a_block_decode(dtype: ir.DType) -> None:
    data = memoryview(bytes(range(256)))
    count = 512 if dtype is ir.DType.F4E2M1FNX2 else 256 // dtype.itemsize
    assert len(decode(data, dtype)) == count
    assert summarize(data, dtype).numbers == count


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_single_digits_read_back(value: float) -> None:
    assert ctypes.c_float(float(number_text(value, is_double=False))).value == value


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_double_digits_read_back(value: float) -> None:
    assert float(number_text(value)) == value


def test_scalars_say_their_type() -> None:
    assert [scalar_text(x) for x in (3, True, 0.1, -math.inf, math.nan)] == [
        "int 3",
        "bool True",
        "float 0.1",
        "float -inf",
        "float nan",
    ]
    assert statistic_text(1 / 3) == "0.333333"
