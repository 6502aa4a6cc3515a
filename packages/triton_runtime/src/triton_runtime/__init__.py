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

_HOME = {
    "KERNEL_RUNTIME": "runtime",
    "Binary": "protocols",
    "Binding": "binding",
    "BoundArgument": "binding",
    "ByteStore": "protocols",
    "CompileError": "errors",
    "Driver": "protocols",
    "DriverError": "errors",
    "Grid": "grids",
    "KernelError": "errors",
    "LaunchError": "errors",
    "Launchable": "protocols",
    "TritonOptions": "options",
    "TritonRuntime": "runtime",
    "TritonRuntimeError": "errors",
    "bind": "binding",
    "make_grid": "grids",
}
"""The module of each public name; a test compares the keys with `__all__`."""

__getattr__, __dir__ = loaded_on_use(__name__, _HOME)
