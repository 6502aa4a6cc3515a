"""Tensors that are constants of a program, and their bytes: a view of the tensor's own memory where that is on the CPU, else
of a copy there."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch.utils._python_dispatch import _disable_current_modes

from inductor_frontend.convert import to_dtype
from inductor_frontend.errors import ConversionError
from inductor_frontend.lazy_bits import elements_of, is_lazy
from wrapper_ir import ir
from wrapper_ir.artifact import TensorData, memory_of


@dataclass(frozen=True, slots=True)
class ConstantRole:
    """A tensor of the graph that is not a parameter of `main` but a constant: a weight, a buffer, a literal. `device` is
    where the program has it, if that is elsewhere than `data`."""

    name: str
    data: torch.Tensor
    mutable: bool
    device: torch.device | None = None
    kind: ir.ConstantKind = ir.ConstantKind.OTHER
    names: tuple[str, ...] = ()
    """All names that the model has for the tensor."""


def is_packed(tensor: torch.Tensor) -> bool:
    """Whether a tensor's bytes are oneDNN's own: they have no strides, and mean something on this machine only."""
    return tensor.is_mkldnn


def _extent(tensor: torch.Tensor) -> int:
    """Elements from the first up to the end of the last."""
    if tensor.numel() == 0:
        return 0
    return 1 + sum((size - 1) * stride for size, stride in zip(tensor.size(), tensor.stride()))


def copied_as_it_lies(tensor: torch.Tensor) -> torch.Tensor:
    """A copy on the CPU with the same strides, what lies between its elements included."""
    flat = elements_of(tensor, int(tensor.storage_offset()), _extent(tensor))
    return torch.empty_like(flat, device="cpu").copy_(flat).as_strided(tensor.size(), tensor.stride())


def on_host(tensor: torch.Tensor) -> torch.Tensor:
    """A constant whose bytes can be read and are its elements: a copy of one on another device, or with a lazy bit."""
    is_readable = tensor.device.type in ("cpu", "meta") and not is_lazy(tensor)
    if is_readable or tensor.layout is not torch.strided:
        return tensor
    with _disable_current_modes():  # torch may be tracing with fake tensors
        return copied_as_it_lies(tensor)


def tensor_data(name: str, tensor: torch.Tensor) -> TensorData:
    """The bytes under a strided CPU tensor, from its first element to its last, holes included.

    The result keeps the tensor alive. Raises ConversionError FE306 for tensors that have no such bytes.
    """
    if tensor.layout is not torch.strided or tensor.device.type != "cpu":
        raise ConversionError(
            "FE306",
            f"constant {name} is a {tensor.layout} tensor on {tensor.device}; only strided CPU ones are stored",
        )
    tensor = on_host(tensor)
    nbytes = _extent(tensor) * tensor.element_size()
    return TensorData(to_dtype(tensor.dtype), memory_of(tensor.data_ptr(), nbytes, tensor))
