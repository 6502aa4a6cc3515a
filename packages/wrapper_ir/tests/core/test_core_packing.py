"""Packed constants: bytes in every layout and back, updates by the original's names, tied weights."""

from __future__ import annotations

import hashlib
import itertools
import struct
from array import array

import pytest

from wrapper_ir import from_json, ir, parse_program, print_program, to_json
from wrapper_ir.artifact import Artifact, TensorData, bare_artifact
from wrapper_ir.artifact.packing import (
    model_names,
    original_data,
    original_type,
    pack,
    unpack,
    update_constants,
)
from wrapper_ir.errors import ArtifactError

_DTYPES = {"panels16": ir.DType.F32, "panels16_pairs": ir.DType.BF16, "panels16_quads": ir.DType.I8}
_CODES = {ir.DType.F32: "I", ir.DType.BF16: "H", ir.DType.I8: "B"}


def _data(numbers: list[int], dtype: ir.DType) -> TensorData:
    return TensorData(dtype, memoryview(array(_CODES[dtype], numbers).tobytes()))


def _numbers(data: TensorData) -> list[int]:
    return list(array(_CODES[data.dtype], bytes(data.buffer)))


@pytest.mark.parametrize("transposed", [False, True], ids=["rows", "transposed"])
@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (5, 3), (4, 16), (33, 40)])
@pytest.mark.parametrize("layout", _DTYPES)
def test_matrices(layout: str, rows: int, columns: int, transposed: bool) -> None:
    """Element (k, n) is in panel n/16, at row k of it; padding is zero."""
    dtype = _DTYPES[layout]
    lanes = 4 // dtype.itemsize
    sizes = (columns, rows) if transposed else (rows, columns)
    packing = ir.Packing(
        layout=ir.PackedLayout(layout), original="w", sizes=sizes, columns=columns, transposed=transposed
    )
    assert packing.fault(dtype) == ""
    numbers = [n % 250 + 1 for n in range(rows * columns)]
    packed = pack(_data(numbers, dtype), packing)
    stored = -(-rows // lanes) * lanes
    expected = [0] * (-(-columns // 16) * stored * 16)
    for k, n in itertools.product(range(rows), range(columns)):
        place = n // 16 * stored * 16 + k // lanes * 16 * lanes + n % 16 * lanes + k % lanes
        expected[place] = numbers[n * rows + k if transposed else k * columns + n]
    assert _numbers(packed) == expected
    assert _numbers(unpack(packed, packing)) == numbers


@pytest.mark.parametrize("is_channels_last", [False, True], ids=["contiguous", "channels last"])
@pytest.mark.parametrize(
    ("sizes", "groups", "layout"),
    [
        ((20, 6, 3, 2), 2, "convolution_panels16"),
        ((5, 4, 7), 1, "convolution_panels16"),
        ((3, 2, 2, 3, 2), 3, "convolution_panels16"),
        ((18, 1, 3, 3), 18, "depthwise_panels16"),
    ],
)
def test_convolutions(sizes: tuple[int, ...], groups: int, layout: str, is_channels_last: bool) -> None:
    """Rows are positions of the kernel, each with all channels; columns are output channels of a group."""
    outputs, channels, *kernel = sizes
    depth = channels
    for size in kernel:
        depth *= size
    order = [0, *range(2, len(sizes)), 1] if is_channels_last else list(range(len(sizes)))
    strides, running = [0] * len(sizes), 1
    for dim in reversed(order):
        strides[dim], running = running, running * sizes[dim]
    packing = ir.Packing(
        layout=ir.PackedLayout(layout), original="w", sizes=sizes, strides=tuple(strides), groups=groups
    )
    assert packing.fault(ir.DType.F32) == ""
    numbers = list(range(1, running + 1))
    packed = pack(_data(numbers, ir.DType.F32), packing)
    columns = outputs if layout.startswith("depthwise") else outputs // groups
    expected = [0] * (outputs // columns * -(-columns // 16) * depth * 16)
    for index in itertools.product(*map(range, sizes)):
        output, channel, *position = index
        row = 0
        for at, size in zip((*position, channel), (*kernel, channels)):
            row = row * size + at
        group, column = divmod(output, columns)
        panel = group * -(-columns // 16) + column // 16
        expected[(panel * depth + row) * 16 + column % 16] = numbers[
            sum(i * stride for i, stride in zip(index, strides))
        ]
    assert _numbers(packed) == expected
    assert _numbers(unpack(packed, packing)) == numbers


TEXT = """wir 0.5
target cpu

const %w : f32[2, 3] parameter names("a.w", "b.w"){hash}
const %w.packed : f32[1, 3, 16] parameter names("a.w", "b.w") packed panels16 of "w"(2, 3) columns 2 transposed{packed}
const %c.packed : bf16[1, 1, 16, 2] packed panels16_pairs of "c"(2, 1) columns 1
const %k.packed : f32[2, 1, 2, 16] names("k") packed convolution_panels16 of "k"(2, 1, 2) strides(1, 4, 2) groups 2

func @main() {
  return %w
}
"""


def test_forms() -> None:
    program = parse_program(TEXT.replace("{hash}", "").replace("{packed}", ""))
    assert parse_program(print_program(program)) == program
    assert from_json(to_json(program)) == program
    assert program.constant_named("b.w").packing is None
    assert program.constant_named("k").packing is not None
    types = {c.value.name: original_type(c) for c in program.constants}
    assert types["w.packed"] == types["w"]
    assert model_names(program) == ("a.w", "b.w", "c", "k")


def _tied() -> Artifact:
    weight = TensorData(ir.DType.F32, memoryview(struct.pack("6f", *range(6))))
    packing = ir.Packing(
        layout=ir.PackedLayout.PANELS, original="w", sizes=(2, 3), columns=2, transposed=True
    )
    packed = pack(weight, packing)
    text = TEXT.split("const %c")[0] + "\nfunc @main() {\n  return %w\n}\n"
    hashes = [f' sha256 "{hashlib.sha256(data.buffer).hexdigest()}"' for data in (weight, packed)]
    program = parse_program(text.replace("{hash}", hashes[0]).replace("{packed}", hashes[1]))
    return bare_artifact(program, {"w": weight, "w.packed": packed})


@pytest.mark.parametrize("name", ["a.w", "b.w"])
def test_updates_reach_tied_weights(name: str) -> None:
    artifact = _tied()
    new = TensorData(ir.DType.F32, memoryview(struct.pack("6f", *range(6, 12))))
    updated = update_constants(artifact, {name: new})
    for constant in updated.program.constants:
        data = updated.data_of(constant)
        assert data is not None
        assert data.sha256() == constant.data_hash
        original = original_data(updated, constant)
        assert original is not None
        assert original.buffer == new.buffer
    assert artifact.constants["w"].buffer != new.buffer


@pytest.mark.parametrize("case", ["unknown", "bytes", "dtype"])
def test_refused_updates(case: str) -> None:
    values = {
        "unknown": {"w": TensorData(ir.DType.F32, memoryview(bytes(24)))},
        "bytes": {"a.w": TensorData(ir.DType.F32, memoryview(bytes(20)))},
        "dtype": {"a.w": TensorData(ir.DType.I32, memoryview(bytes(24)))},
    }
    with pytest.raises(ArtifactError, match="WIR719"):
        update_constants(_tied(), values[case])


def test_short_data_is_refused() -> None:
    packing = ir.Packing(layout=ir.PackedLayout.PANELS, original="w", sizes=(2, 3), columns=2)
    for convert in (pack, unpack):
        with pytest.raises(ArtifactError, match="WIR708"):
            convert(TensorData(ir.DType.F32, memoryview(bytes(20))), packing)
