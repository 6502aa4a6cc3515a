"""Triton kernels of Wrapper IR: binding, compilation, interpretation and launches.

Names are imported on first use: a compiler process needs few of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wrapper_ir.support.lazy import loaded_on_use

if TYPE_CHECKING:
    from triton_runtime.binding import Binding, BoundArgument, bind
    from triton_runtime.errors import CompileError, DriverError, KernelError, LaunchError, TritonRuntimeError
    from triton_runtime.grids import Grid, make_grid
    from triton_runtime.options import TritonOptions
    from triton_runtime.protocols import Binary, ByteStore, Driver, Launchable
    from triton_runtime.runtime import KERNEL_RUNTIME, TritonRuntime

__all__ = [
    "KERNEL_RUNTIME",
    "Binary",
    "Binding",
    "BoundArgument",
    "ByteStore",
    "CompileError",
    "Driver",
    "DriverError",
    "Grid",
    "KernelError",
    "LaunchError",
    "Launchable",
    "TritonOptions",
    "TritonRuntime",
    "TritonRuntimeError",
    "bind",
    "make_grid",
]

_MODULES = {
    "binding": ("Binding", "BoundArgument", "bind"),
    "errors": ("CompileError", "DriverError", "KernelError", "LaunchError", "TritonRuntimeError"),
    "grids": ("Grid", "make_grid"),
    "options": ("TritonOptions",),
    "protocols": ("Binary", "ByteStore", "Driver", "Launchable"),
    "runtime": ("KERNEL_RUNTIME", "TritonRuntime"),
}
"""The public names of each module; a test compares them with `__all__`."""

__getattr__, __dir__ = loaded_on_use(__name__, _MODULES)
