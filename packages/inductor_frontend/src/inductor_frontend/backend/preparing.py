"""What loading kernels takes is started while Inductor is imported and the graph is lowered."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import torch

from wrapper_ir.errors import PluginError
from wrapper_ir.protocols import PreparingRuntime
from wrapper_ir.registry import kernel_runtime

__all__ = ["prepare_kernels"]


def prepare_kernels(inputs: Sequence[Any]) -> None:  # Any: tensors, symbolic and plain numbers
    """Has the runtime of Triton kernels prepare for the devices that a graph's inputs are on, other than the host: kernels for
    that are compiled as a whole, by a compiler that is there."""
    types = {x.device.type for x in inputs if isinstance(x, torch.Tensor)} - {"cpu", "meta"}
    if not types:
        return
    with suppress(PluginError):  # a program without Triton kernels needs none
        runtime = kernel_runtime("triton")
        if isinstance(runtime, PreparingRuntime):
            for device_type in sorted(types):
                runtime.prepare(device_type)
