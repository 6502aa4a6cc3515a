"""`debug` ops at run time: values printed, or saved as safetensors files in the working directory."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, cast

from wrapper_ir.artifact import TensorData
from wrapper_ir.ops import DebugMode, DebugPhase
from wrapper_ir.quoting import ascii_identifier, printable
from wrapper_ir.types import DType

__all__ = ["DebugRecord", "debug_value", "place_text", "report"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DebugRecord:
    """One value: its layout if it is a tensor, and functions that read its content."""

    name: str
    describe: Callable[[], str]
    dtype: DType | None = None
    sizes: tuple[int, ...] = ()
    strides: tuple[int, ...] = ()
    data: Callable[[], TensorData] | None = None

    @property
    def layout(self) -> str:
        """Dtype, sizes and strides, '' for a value that is not a tensor."""
        if self.dtype is None:
            return ""
        return f"{self.dtype.value}{list(self.sizes)} strides {list(self.strides)}"


def place_text(label: str, phase: DebugPhase, kernel: str) -> str:
    """The prefix of the names of values: `label before kernel`."""
    where = () if phase is DebugPhase.HERE else (phase.value, kernel)
    return " ".join(part for part in (label, *where) if part)


def report(record: DebugRecord, mode: DebugMode, place: str) -> None:
    """Prints a value, prints its name and layout only, or saves it to a new file `debug_<place>_<name>_<n>`."""
    head = printable(" ".join(part for part in (place, record.name, record.layout) if part))
    match mode:
        case DebugMode.NAMES:
            print(head)
        case DebugMode.PRINT:
            print(f"{head}\n{record.describe()}")
        case DebugMode.SAVE if record.data is None:
            print(f"{head}\n{record.describe()}")
        case DebugMode.SAVE:
            print(f"{head} -> {_save(record, record.data(), place)}")


def _save(record: DebugRecord, data: TensorData, place: str) -> Path:
    from wrapper_ir.storage.safetensors import write_safetensors  # only who saves needs the file formats

    parts = (place, record.name)
    # File systems take names of some 255 bytes.
    stem = "_".join(ascii_identifier(part)[:100] for part in parts if part)
    number = 0
    while (path := Path(f"debug_{stem}_{number}.safetensors")).exists():
        number += 1
    _, chunks = write_safetensors({record.name: data})
    path.write_bytes(b"".join(chunks))
    return path


class HostTensor(Protocol):
    """The methods of a library's tensor that are used here."""

    @property
    def shape(self) -> Sequence[int]:
        """Sizes in elements."""

    def stride(self) -> Sequence[int]:
        """Strides in elements."""

    def cpu(self) -> HostTensor:
        """The tensor in host memory."""

    def contiguous(self) -> HostTensor:
        """The tensor in row-major order."""

    def data_ptr(self) -> int:
        """Address of the first element."""

    def numel(self) -> int:
        """Number of elements."""


def debug_value(
    name: str,
    value: HostTensor | object,
    mode: str,
    label: str,
    dtype: str = "",
    phase: str = DebugPhase.HERE.value,
    kernel: str = "",
) -> None:
    """The `debug` op of emitted programs; `dtype` is '' for a value that is not a tensor."""
    place = place_text(label, DebugPhase(phase), kernel)
    if not dtype:
        report(DebugRecord(name=name, describe=lambda: repr(value)), DebugMode(mode), place)
        return
    # cast: the emitter knows from the value's type that it is a tensor
    tensor, kind = cast(HostTensor, value), DType(dtype)
    record = DebugRecord(
        name=name,
        dtype=kind,
        sizes=tuple(tensor.shape),
        strides=tuple(tensor.stride()),
        describe=lambda: repr(tensor),
        data=lambda: _host_data(tensor, kind),
    )
    report(record, DebugMode(mode), place)


def _host_data(tensor: HostTensor, dtype: DType) -> TensorData:
    dense = tensor.cpu().contiguous()
    return TensorData(dtype, memoryview(ctypes.string_at(dense.data_ptr(), dense.numel() * dtype.itemsize)))
