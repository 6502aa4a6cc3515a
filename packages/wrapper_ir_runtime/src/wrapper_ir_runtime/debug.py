"""Debug values at run time: lines on standard output, and safetensors files.

A file contains one tensor, under the file's name and with the tensor's sizes. Complex numbers, and element
types that the format does not support, are stored as bytes in an additional last dimension. The metadata
contain the element type.
"""

from __future__ import annotations

import ctypes
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from wrapper_ir import ir
from wrapper_ir_runtime.tensor_text import TensorView, scalar_text, tensor_lines


class HostTensor(Protocol):
    """Methods of a library's tensor that are used here."""

    @property
    def shape(self) -> Sequence[int]:
        """Sizes in elements."""

    @property
    def device(self) -> object:
        """The device; its text is `cpu` or `cuda:0`."""

    def stride(self) -> Sequence[int]:
        """Returns strides in elements."""

    def resolve_conj(self) -> HostTensor:
        """Returns the tensor with conjugated elements in memory."""

    def resolve_neg(self) -> HostTensor:
        """Returns the tensor with negated elements in memory."""

    def cpu(self) -> HostTensor:
        """Returns the tensor in host memory."""

    def contiguous(self) -> HostTensor:
        """Returns the tensor in row-major order."""

    def data_ptr(self) -> int:
        """Returns the address of the first element."""

    def numel(self) -> int:
        """Returns the number of elements."""


def show_line(text: str) -> None:
    """Prints a line and flushes, since other languages write to the same output."""
    print(text, flush=True)


def show_number(title: str, value: float, kind: str) -> None:
    """Prints the title, then a number of kind `int`, `float` or `bool`."""
    number = {"int": int, "float": float, "bool": bool}[kind](value)
    show_line(f"{title}\n  {scalar_text(number)}")


def show_tensor(title: str, tensor: HostTensor, dtype: str) -> None:
    """Prints the title, then a tensor of this element type."""
    show_view(title, _view(tensor, ir.DType(dtype)))


def show_view(title: str, view: TensorView) -> None:
    """Prints the title, then a tensor on the host."""
    show_line("\n".join((title, *(f"  {line}" for line in tensor_lines(view)))))


def save_tensor(tensor: HostTensor, dtype: str, directory: str, name: str, metadata: str) -> None:
    """Writes a tensor to a new file in `directory`, which is created. `metadata` is a JSON object of
    strings."""
    save_view(_view(tensor, ir.DType(dtype)), directory, name, metadata)


def save_view(view: TensorView, directory: str, name: str, metadata: str) -> None:
    """Writes a tensor on the host; see `save_tensor`. Existing files are kept: the new file gets a number."""
    from wrapper_ir.artifact.file.safetensors import format_name  # needed only to save

    kind = format_name(view.dtype)
    wide = view.dtype.itemsize if kind == "U8" else 1
    sizes = [*view.sizes, *([wide] if wide > 1 else [])]
    size = view.data.nbytes
    entry = f'{{"dtype":"{kind}","shape":{_compact(sizes)},"data_offsets":[0,{size}]}}'
    text = f'{{"__metadata__":{metadata},{json.dumps(name)}:{entry}}}'.encode()
    text += b" " * (-len(text) % 8)
    os.makedirs(directory, exist_ok=True)
    with _new_file(directory, name).open("wb") as file:
        file.writelines((len(text).to_bytes(8, "little"), text, view.data))


def _new_file(directory: str, name: str) -> Path:
    number = 0
    while True:
        path = Path(directory, f"{name}_{number}.safetensors" if number else f"{name}.safetensors")
        try:
            path.touch(exist_ok=False)
            return path
        except FileExistsError:
            number += 1


def _compact(numbers: Sequence[int]) -> str:
    return f"[{','.join(map(str, numbers))}]"


def _view(tensor: HostTensor, dtype: ir.DType) -> TensorView:
    dense = tensor.resolve_conj().resolve_neg().cpu().contiguous()
    data = ctypes.string_at(dense.data_ptr(), dense.numel() * dtype.itemsize)
    sizes, strides = tuple(map(int, tensor.shape)), tuple(map(int, tensor.stride()))
    return TensorView(
        dtype=dtype, sizes=sizes, strides=strides, device=str(tensor.device), data=memoryview(data)
    )
