"""The entry of constants in the safetensors format (https://huggingface.co/docs/safetensors).

It has an 8-byte header length, a JSON header, and the tensors' bytes. Reading and writing use views, so that
weights are mapped and never copied; tests compare with the `safetensors` library. Element types that the
format lacks are stored as bytes.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from typing import TypeGuard

from wrapper_ir import ir
from wrapper_ir.artifact import TensorData
from wrapper_ir.errors import ArtifactError
from wrapper_ir.support.files import MappedFile

_TO_NAME: dict[ir.DType, str] = {
    ir.DType.F64: "F64", ir.DType.F32: "F32", ir.DType.F16: "F16", ir.DType.BF16: "BF16",
    ir.DType.F8E4M3FN: "F8_E4M3", ir.DType.F8E5M2: "F8_E5M2",
    ir.DType.I64: "I64", ir.DType.I32: "I32", ir.DType.I16: "I16", ir.DType.I8: "I8",
    ir.DType.U64: "U64", ir.DType.U32: "U32", ir.DType.U16: "U16", ir.DType.U8: "U8", ir.DType.BOOL: "BOOL",
}  # fmt: skip
_BYTES = "U8"
_ITEMSIZE = {name: dtype.itemsize for dtype, name in _TO_NAME.items()}
_MAX_HEADER = 100_000_000
_MAX_RANK = 1024
_ALIGNMENT = 64


def format_name(dtype: ir.DType) -> str:
    """Returns the format's name of an element type; that of bytes for types that it lacks."""
    return _TO_NAME.get(dtype, _BYTES)


def write_safetensors(tensors: Mapping[str, TensorData]) -> tuple[int, Iterator[bytes | memoryview]]:
    """Returns the total size in bytes, and the chunks in order.

    Payloads are aligned to 64 bytes from the start of the entry.
    """
    header: dict[str, object] = {"__metadata__": {"format": "wir"}}
    position = 0
    gaps: list[int] = []
    for name, data in tensors.items():
        gap = -position % _ALIGNMENT
        if gap:  # the format allows no holes, so the padding is a tensor
            header[f"__pad__{len(gaps)}"] = {
                "dtype": _BYTES,
                "shape": [gap],
                "data_offsets": [position, position + gap],
            }
        position += gap
        gaps.append(gap)
        kind = format_name(data.dtype)
        size = data.nbytes // (_ITEMSIZE[kind])
        header[name] = {"dtype": kind, "shape": [size], "data_offsets": [position, position + data.nbytes]}
        position += data.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-(len(text) + 8) % _ALIGNMENT)

    def chunks() -> Iterator[bytes | memoryview]:
        yield len(text).to_bytes(8, "little")
        yield text
        for gap, data in zip(gaps, tensors.values(), strict=True):
            yield bytes(gap)
            yield data.buffer

    return 8 + len(text) + position, chunks()


def _no_duplicates(pairs: list[tuple[str, object]]) -> dict[str, object]:
    out = dict(pairs)
    if len(out) != len(pairs):
        raise ValueError("a name appears twice")
    return out


def _header(data: memoryview) -> tuple[dict[str, object], memoryview]:
    if len(data) < 8:
        raise ArtifactError("WIR707", "constants: the header is missing")
    length = int.from_bytes(data[:8], "little")
    if length > _MAX_HEADER or 8 + length > len(data):
        raise ArtifactError("WIR707", f"constants: a header of {length} bytes does not fit")
    try:
        header = json.loads(bytes(data[8 : 8 + length]), object_pairs_hook=_no_duplicates)
    except (ValueError, RecursionError) as error:
        raise ArtifactError("WIR707", f"constants: the header cannot be read: {error}") from error
    if not isinstance(header, dict):
        raise ArtifactError("WIR707", "constants: the header is not an object")
    return header, data[8 + length :]


def read_names(data: memoryview) -> tuple[str, ...]:
    """Returns the names of the tensors in an entry, without padding. Raises ArtifactError WIR707."""
    header, _ = _header(data)
    return tuple(name for name in header if not name.startswith(("__pad__", "__metadata__")))


def read_shapes(data: memoryview) -> dict[str, tuple[int, ...]]:
    """Returns the sizes of the tensors in an entry, without padding. Raises ArtifactError WIR707."""
    header, _ = _header(data)
    shapes: dict[str, tuple[int, ...]] = {}
    for name in read_names(data):
        match header[name]:
            case {"shape": list(sizes)} if _are_sizes(sizes):
                shapes[name] = tuple(sizes)
            case _:
                raise _malformed(name)
    return shapes


def _range(name: str, entry: object, total: int) -> tuple[int, int]:
    match entry:
        case {"dtype": str(dtype), "shape": list(sizes), "data_offsets": [int(begin), int(end)]} if (
            _are_sizes(sizes)
        ):
            fits = 0 <= begin <= end <= total and end - begin == math.prod(sizes) * _ITEMSIZE.get(dtype, 0)
            if fits:
                return begin, end
        case _:
            pass
    raise _malformed(name)


def _are_sizes(sizes: list[object]) -> TypeGuard[list[int]]:
    """Returns whether these are valid sizes: 64-bit numbers, few enough for a cheap product."""
    return len(sizes) <= _MAX_RANK and all(type(size) is int and 0 <= size < 1 << 63 for size in sizes)


def _malformed(name: str) -> ArtifactError:
    return ArtifactError("WIR707", f"constants: the entry of {name[:200]!r} is malformed")


def read_safetensors(
    data: memoryview, dtypes: Mapping[str, ir.DType], file: MappedFile | None = None
) -> dict[str, TensorData]:
    """Returns the tensors of an entry as views.

    `dtypes` has the element types of the requested names, `file` is the file that `data` is mapped from.
    Raises ArtifactError WIR707 if the header is malformed, ranges overlap or are out of bounds, or names are
    missing.
    """
    header, payload = _header(data)
    tensors: dict[str, TensorData] = {}
    position = 0
    ranges = [(*_range(n, e, len(payload)), n) for n, e in header.items() if n != "__metadata__"]
    for begin, end, name in sorted(ranges):
        if begin != position:
            raise ArtifactError("WIR707", f"constants: {name!r} overlaps another tensor or leaves a hole")
        position = end
        if name in dtypes:
            tensors[name] = TensorData(dtypes[name], payload[begin:end], file)
    if position != len(payload):
        raise ArtifactError("WIR707", "constants: bytes after the last tensor")
    if missing := sorted(set(dtypes) - set(tensors)):
        raise ArtifactError("WIR707", f"constants: no data for {', '.join(missing)}")
    return tensors
