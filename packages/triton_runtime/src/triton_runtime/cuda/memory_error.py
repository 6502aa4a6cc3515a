"""The out-of-memory error of a device. Imported on demand: its base class is torch's."""

from __future__ import annotations

import torch

from triton_runtime.errors import TritonRuntimeError


class DeviceMemoryError(TritonRuntimeError, torch.OutOfMemoryError):
    """The device has too little memory for a launch (TR308), or to load a kernel (TR505)."""
