"""Types and constant arguments of programs as torch objects."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from wrapper_ir import ir

DTYPES: Mapping[ir.DType, torch.dtype] = {
    d: getattr(torch, d.torch_name) for d in ir.DType
}  # torch names them so
DTYPE_OF: Mapping[torch.dtype, ir.DType] = {native: dtype for dtype, native in DTYPES.items()}
MEMORY_FORMATS: Mapping[ir.MemoryFormat, torch.memory_format] = {
    ir.MemoryFormat.CONTIGUOUS: torch.contiguous_format,
    ir.MemoryFormat.PRESERVE: torch.preserve_format,
    ir.MemoryFormat.CHANNELS_LAST: torch.channels_last,
    ir.MemoryFormat.CHANNELS_LAST_3D: torch.channels_last_3d,
}
LAYOUTS: Mapping[ir.Layout, torch.layout] = {
    layout: getattr(torch, layout.value) for layout in ir.Layout
}  # torch names them so


def torch_device(device: ir.Device) -> torch.device:
    """Returns torch's device. A device without an index is torch's current one of that type."""
    return torch.device(str(device))
