"""Triton kernels of Wrapper IR: bound, compiled, interpreted and launched."""

from __future__ import annotations

from triton_runtime.binding import Binding, BoundArgument, bind
from triton_runtime.errors import CompileError, DriverError, KernelError, LaunchError, TritonRuntimeError
from triton_runtime.grids import Grid, make_grid
from triton_runtime.options import TritonOptions
from triton_runtime.protocols import Binary, ByteStore, Driver, Launchable
from triton_runtime.runtime import TritonRuntime

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

KERNEL_RUNTIME = TritonRuntime()
"""The entry point `wrapper_ir.kernel_runtimes: triton`, with default options."""
