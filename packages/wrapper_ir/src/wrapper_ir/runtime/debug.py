"""`debug` ops at run time: values printed, or saved as safetensors files in the working directory."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, cast

from wrapper_ir.artifact import TensorData
from wrapper_ir.ops import DebugMode
from wrapper_ir.types import DType

__all__ = ["DebugRecord", "debug_value", "report"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DebugRecord:
    """One value: its layout where it is a tensor, and how to get at its content."""

    name: str
    describe: Callable[[], str]
    dtype: DType | None = None
    sizes: tuple[int, ...] = ()
    strides: tuple[int, ...] = ()
    data: Callable[[], TensorData] | None = None

    @property
    def layout(self) -> str:
        """Dtype, sizes and strides, or '' for what is no tensor."""
        if self.dtype is None:
            return ""
        return f"{self.dtype.value}{list(self.sizes)} strides {list(self.strides)}"


def report(record: DebugRecord, mode: DebugMode, label: str) -> None:
    """Prints a value, prints its name and layout only, or saves it to a new file `debug_<label>_<name>_<n>`."""
    head = " ".join(part for part in (label, record.name, record.layout) if part)
    match mode:
        case DebugMode.NAMES:
            print(head)
        case DebugMode.PRINT:
            print(f"{head}\n{record.describe()}")
        case DebugMode.SAVE if record.data is None:
            print(f"{head}\n{record.describe()}")
        case DebugMode.SAVE:
            print(f"{head} -> {_save(record, record.data(), label)}")


def _save(record: DebugRecord, data: TensorData, label: str) -> Path:
    from wrapper_ir.storage.safetensors import write_safetensors  # only who saves needs the file formats

    parts = (label, record.name)
    stem = "_".join("".join(c if c.isalnum() else "_" for c in part) for part in parts if part)
    number = 0
    while (path := Path(f"debug_{stem}_{number}.safetensors")).exists():
        number += 1
    _, chunks = write_safetensors({record.name: data})
    path.write_bytes(b"".join(chunks))
    return path


class HostTensor(Protocol):
    """The few things that are asked of a tensor here; its methods are the tensor library's."""

    @property
    def shape(self) -> Sequence[int]:
        """Sizes in elements."""
        ...

    def stride(self) -> Sequence[int]:
        """Strides in elements."""
        ...

    def cpu(self) -> HostTensor:
        """The tensor in host memory."""
        ...

    def contiguous(self) -> HostTensor:
        """The tensor in row-major order."""
        ...

    def data_ptr(self) -> int:
        """Address of the first element."""
        ...

    def numel(self) -> int:
        """Number of elements."""
        ...


def debug_value(name: str, value: HostTensor | object, mode: str, label: str, dtype: str = "") -> None:
    """The `debug` op of emitted programs; `dtype` is '' for what is no tensor."""
    if not dtype:
        report(DebugRecord(name=name, describe=lambda: repr(value)), DebugMode(mode), label)
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
    report(record, DebugMode(mode), label)


def _host_data(tensor: HostTensor, dtype: DType) -> TensorData:
    dense = tensor.cpu().contiguous()
    return TensorData(dtype, memoryview(ctypes.string_at(dense.data_ptr(), dense.numel() * dtype.itemsize)))
