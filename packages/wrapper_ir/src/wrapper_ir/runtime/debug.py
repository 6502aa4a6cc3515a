"""`debug` ops at run time: values printed, or saved as safetensors files in the working directory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from wrapper_ir.artifact import TensorData
from wrapper_ir.ops import DebugMode
from wrapper_ir.types import DType

__all__ = ["DebugRecord", "report"]


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
