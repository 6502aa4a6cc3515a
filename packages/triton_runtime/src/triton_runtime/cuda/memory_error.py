"""The error of a device whose memory is full. Imported where one is raised: its base is torch's."""

from __future__ import annotations

import torch

from triton_runtime.errors import TritonRuntimeError


class DeviceMemoryError(TritonRuntimeError, torch.OutOfMemoryError):
    """The device has too little memory for a launch (TR308), or to load a kernel (TR505)."""
