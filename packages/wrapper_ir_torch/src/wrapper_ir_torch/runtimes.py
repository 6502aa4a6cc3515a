"""The kernel runtime whose native code reads torch's tensors."""

from __future__ import annotations

from wrapper_ir.errors import PluginError
from wrapper_ir.plugins.registry import kernel_runtime


def triton_runtime() -> object:
    """The runtime of Triton kernels, which programs for CUDA have loaded already, to ask what it offers besides; None where it is not
    installed."""
    try:
        return kernel_runtime("triton")
    except PluginError:
        return None
