"""Reads the data of a run: the times of `wir profile`, and the tensors of `debug save`."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from wrapper_ir import ir
from wrapper_ir.errors import ReportError
from wrapper_ir.support.files import opened, read_text
from wrapper_ir.support.quoting import value_name
from wrapper_ir_passes.analysis.stats import shown_bytes
from wrapper_ir_runtime.tensor_text import TensorView, summarize, summary_text, tensor_lines
from wrapper_ir_runtime.tensor_text.lines import WHOLE
from wrapper_ir_tools.view.model import OpTime, SavedValue

# Any in this file: unvalidated JSON

_MOST_ELEMENTS = 4_000_000
"""Larger tensors have no statistics: this many take about a second."""
_MOST_SIZES = 1024
_DAMAGE = (OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError)
"""Exceptions while reading a file in another format."""
_FORMATS = {"F8_E4M3": ir.DType.F8E4M3FN, "F8_E5M2": ir.DType.F8E5M2}
"""Element types whose safetensors name is not that of `DType` in capitals."""


def read_profile(path: Path) -> tuple[OpTime, ...]:
    """Reads the times that `wir profile -o` wrote. Raises ReportError WIR273 for any other file."""
    try:
        ops = json.loads(read_text(path))["ops"]
        return tuple(_time(op) for op in ops)
    except _DAMAGE as error:
        raise ReportError(
            "WIR273",
            f"cannot read the profile {str(path)!r}: {type(error).__name__}: {error}",
            hint="write it with wir profile FILE -o times.json",
        ) from error


def _time(op: Mapping[str, Any]) -> OpTime:
    """Reads the time on the device if it was measured, otherwise that of the host."""
    on_device = op.get("device_seconds")
    seconds = float(op["seconds"] if on_device is None else on_device)
    return OpTime(
        function=str(op["function"]), op=int(op["op_index"]), seconds=seconds, facts=tuple(_facts(op))
    )


def _facts(op: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    if op.get("device_seconds") is not None:
        yield "measured on", str(op.get("device", "device"))
        yield "time of the host", f"{float(op['seconds']) * 1e6:.2f} us"
    if op.get("count", 1) != 1:
        yield "runs in one call", str(op["count"])
    if op.get("bytes") is not None:
        yield "bytes moved", shown_bytes(int(op["bytes"]))
    if op.get("share") is not None:
        yield "share of the bandwidth limit", f"{100 * float(op['share']):.1f} %"


def read_saved_values(folder: Path) -> tuple[SavedValue, ...]:
    """Reads the tensors in a folder of safetensors files, with statistics; equal names in the order of
    saving.

    Raises ReportError WIR273 if the folder does not exist or a file is damaged.
    """
    if not folder.is_dir():
        raise ReportError(
            "WIR273", f"no folder {str(folder)!r}", hint="give the folder that debug values saved into"
        )
    # order: a, a_1, a_10
    paths = sorted(folder.glob("*.safetensors"), key=lambda path: (len(path.name), path.name))
    return tuple(v for path in paths for v in _values(path))


def _values(path: Path) -> Iterator[SavedValue]:
    try:
        with opened(path) as file:
            data = memoryview(file.read())
        begin = 8 + int.from_bytes(data[:8], "little")
        header = json.loads(bytes(data[8:begin]))
        metadata = header.pop("__metadata__", {})
        for name, entry in header.items():
            first, last = entry["data_offsets"]
            if not 0 <= first <= last <= len(data) - begin:
                raise ValueError(f"{name} is outside the file")
            tensor = _tensor(entry, metadata, data[begin + first : begin + last])
            yield SavedValue(
                file=path.name,
                kernel=metadata.get("kernel", ""),
                value=value_name(metadata.get("arg", name)),
                phase=metadata.get("phase", ""),
                summary=_summary(tensor),
                function=metadata.get("function", ""),
                op=int(metadata.get("op_index", -1)),
            )
    except _DAMAGE as error:
        raise ReportError(
            "WIR273", f"cannot read the values in {str(path)!r}: {type(error).__name__}: {error}"
        ) from error


def _tensor(entry: Mapping[str, Any], metadata: Mapping[str, str], data: memoryview) -> TensorView:
    """Reads the tensor of an entry. If the metadata name another dtype, the stored bytes are
    reinterpreted."""
    stored, sizes = str(entry["dtype"]), tuple(map(int, entry["shape"]))
    if len(sizes) > _MOST_SIZES or not all(0 <= size < 1 << 63 for size in sizes):
        raise ValueError("its sizes are not those of a tensor")
    dtype = _FORMATS.get(stored) or ir.DType(stored.lower())
    real = ir.DType(metadata.get("dtype", dtype.value))
    if real is not dtype and sizes:
        last = sizes[-1] * dtype.itemsize // real.itemsize
        dtype, sizes = real, sizes[:-1] if last == 1 else (*sizes[:-1], last)
    if math.prod(sizes) * dtype.itemsize != data.nbytes:
        raise ValueError(f"{data.nbytes} bytes are not a {dtype.value}{list(sizes)}")
    strides = tuple(math.prod(sizes[n + 1 :]) for n in range(len(sizes)))
    return TensorView(dtype=dtype, sizes=sizes, strides=strides, device="", data=data)


def _summary(tensor: TensorView) -> str:
    layout = f"{tensor.dtype.value}{list(tensor.sizes)}"
    if tensor.elements <= WHOLE:
        return " ".join((layout, *(line.strip() for line in tensor_lines(tensor)[1:])))
    if tensor.elements > _MOST_ELEMENTS:
        return f"{layout}: {tensor.elements:,} elements, too many for statistics here"
    return f"{layout}: {summary_text(summarize(tensor.data, tensor.dtype))}"
