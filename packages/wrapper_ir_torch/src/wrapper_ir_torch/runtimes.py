"""The kernel runtime whose native code reads torch tensors."""

from __future__ import annotations

from wrapper_ir.errors import PluginError
from wrapper_ir.plugins.registry import kernel_runtime


def triton_runtime() -> object:
    """Returns the runtime of Triton kernels, or None if it is not installed. Callers query it for optional
    capabilities; programs for CUDA have loaded it already."""
    try:
        return kernel_runtime("triton")
    except PluginError:
        return None
