"""Constants of a program and their bytes.

The bytes are a view of the tensor's memory if it is on the CPU, otherwise of a copy on the CPU.
"""

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
    """A tensor of the graph that is a constant of the program, not a parameter of `main`: a weight, buffer or
    literal.

    `device`: the device of the constant in the program, if it is not that of `data`.
    """

    name: str
    data: torch.Tensor
    mutable: bool
    device: torch.device | None = None
    kind: ir.ConstantKind = ir.ConstantKind.OTHER
    names: tuple[str, ...] = ()
    """All names of the tensor in the model."""


def is_packed(tensor: torch.Tensor) -> bool:
    """Returns whether a tensor is in a packed format of oneDNN, without strides and valid on this machine
    only."""
    return tensor.is_mkldnn


def _extent(tensor: torch.Tensor) -> int:
    """Returns the number of elements from the first to the last, gaps included."""
    if tensor.numel() == 0:
        return 0
    return 1 + sum((size - 1) * stride for size, stride in zip(tensor.size(), tensor.stride()))


def host_copy(tensor: torch.Tensor) -> torch.Tensor:
    """Copies a tensor to the CPU with the same strides, including the gaps between its elements."""
    flat = elements_of(tensor, int(tensor.storage_offset()), _extent(tensor))
    return torch.empty_like(flat, device="cpu").copy_(flat).as_strided(tensor.size(), tensor.stride())


def on_host(tensor: torch.Tensor) -> torch.Tensor:
    """Returns a constant whose memory is readable and equals its elements: a copy if on another device or
    lazy."""
    is_readable = tensor.device.type in ("cpu", "meta") and not is_lazy(tensor)
    if is_readable or tensor.layout is not torch.strided:
        return tensor
    with _disable_current_modes():  # torch may be tracing with fake tensors
        return host_copy(tensor)


def tensor_data(name: str, tensor: torch.Tensor) -> TensorData:
    """Returns the bytes of a strided CPU tensor from its first to its last element, gaps included.

    The result keeps the tensor alive. Raises ConversionError FE306 for other tensors.
    """
    if tensor.layout is not torch.strided or tensor.device.type != "cpu":
        raise ConversionError(
            "FE306",
            f"constant {name} is a {tensor.layout} tensor on {tensor.device}; "
            "only strided CPU tensors can be stored",
        )
    tensor = on_host(tensor)
    nbytes = _extent(tensor) * tensor.element_size()
    return TensorData(to_dtype(tensor.dtype), memory_of(tensor.data_ptr(), nbytes, tensor))
