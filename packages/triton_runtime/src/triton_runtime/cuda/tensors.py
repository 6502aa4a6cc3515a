"""Configures how the launcher reads torch's tensors. torch is imported when the first kernel is loaded."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from triton_runtime.cuda.extension import Extension
from triton_runtime.cuda.functions import STREAM_FUNCTION, TENSOR_FUNCTIONS, addresses
from wrapper_ir import ir

if TYPE_CHECKING:
    from torch import Tensor

_DEVICE_TYPES = {"cpu": 0, "cuda": 1}
"""torch's numbers of the device types whose tensors this driver accepts."""


def set_up_tensors(extension: Extension) -> bool:
    """Configures the extension to read tensors; returns True if torch's C functions suffice.

    The offset of the at::Tensor in a Python tensor is found by search, and then verified on some tensors. If
    torch stores it elsewhere, tensors are read by method: slower, and without checks of dtype and device.
    """
    import torch

    one = torch.empty(4)
    parts = (torch.Tensor, torch.nn.Parameter, torch.Tensor.data_ptr, one, one._cdata)
    if extension.set_torch(*parts, _functions_of_torch()):
        samples = (one, one[1:], torch.nn.Parameter(one), torch.empty(0, dtype=torch.int8))
        if all(extension.facts(t)[0] == t.data_ptr() and extension.facts(t)[3] == -1 for t in samples):
            return True
    extension.set_torch(*parts, None)
    return False


def _functions_of_torch() -> bytes | None:
    try:
        return addresses(_library("torch_cpu"), TENSOR_FUNCTIONS)
    except OSError:
        return None


def dtype_number(extension: Extension, in_place: bool) -> Callable[[ir.DType], int]:
    """Returns a function from dtypes to torch's numbers; -1 if they are unknown."""
    import torch

    def number(dtype: ir.DType) -> int:
        # torch has this attribute for each dtype
        return extension.facts(torch.empty(0, dtype=getattr(torch, dtype.torch_name)))[1] if in_place else -1

    return number


def device_number(device: ir.Device) -> tuple[int, int]:
    """torch's numbers of a device: type and index (-1 if the type has one device)."""
    return _DEVICE_TYPES[device.type], -1 if device.index is None else device.index


def current_device(device: ir.Device) -> ir.Device:
    """The device; the current one for CUDA without an index."""
    if device.type != "cuda" or device.index is not None:
        return device
    import torch

    return ir.Device("cuda", torch.cuda.current_device())


def stream_source(device: ir.Device) -> tuple[int, Callable[[int], int] | None]:
    """The source of a device's current stream: the address of torch's C function, or 0 and a Python function.

    Only CUDA devices have streams.
    """
    if device.type != "cuda":
        return 0, None
    import torch

    try:
        [address] = struct.unpack("=Q", addresses(_library("torch_cuda"), STREAM_FUNCTION))
    except OSError:
        address = 0
    # torch publishes no types for this function
    return address, torch._C._cuda_getCurrentRawStream


def make_allocator(device: ir.Device) -> Callable[[int, int, int], Tensor]:
    """Returns an allocator of scratch memory: a byte tensor that belongs to a raw stream."""
    import torch

    where = torch.device(str(device))

    def allocate(nbytes: int, align: int, stream: int) -> Tensor:
        if where.type != "cuda" or stream == torch.cuda.current_stream(where).cuda_stream:
            return torch.empty(nbytes, dtype=torch.uint8, device=where)
        # torch does not annotate this class
        external = torch.cuda.ExternalStream(stream, where)  # type: ignore[no-untyped-call]
        with torch.cuda.stream(external):
            return torch.empty(nbytes, dtype=torch.uint8, device=where)

    return allocate


def _library(name: str) -> str:
    import torch

    return str(Path(torch.__file__).parent / "lib" / f"lib{name}.so")
