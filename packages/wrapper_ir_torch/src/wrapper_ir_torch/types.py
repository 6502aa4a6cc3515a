"""Types and arguments as torch's own objects."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from wrapper_ir.ir.types import Device, DType, Layout, MemoryFormat

DTYPES: Mapping[DType, torch.dtype] = {d: getattr(torch, d.torch_name) for d in DType}  # torch names them so
DTYPE_OF: Mapping[torch.dtype, DType] = {native: dtype for dtype, native in DTYPES.items()}
MEMORY_FORMATS: Mapping[MemoryFormat, torch.memory_format] = {
    MemoryFormat.CONTIGUOUS: torch.contiguous_format,
    MemoryFormat.PRESERVE: torch.preserve_format,
    MemoryFormat.CHANNELS_LAST: torch.channels_last,
    MemoryFormat.CHANNELS_LAST_3D: torch.channels_last_3d,
}
LAYOUTS: Mapping[Layout, torch.layout] = {
    layout: getattr(torch, layout.value) for layout in Layout
}  # torch names them so


def torch_device(device: Device) -> torch.device:
    """The device; one without an index is torch's current one of that type."""
    return torch.device(str(device))
