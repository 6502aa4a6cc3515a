"""Wrapper IR to C++: builds, loads and launches compiled CPU kernels."""

from __future__ import annotations

from cpp_wrapper.errors import CacheError, CompileError, CppError, IsaError, KernelError, LaunchError
from cpp_wrapper.kernels.options import CppOptions
from cpp_wrapper.kernels.runtime import CppKernelRuntime

__all__ = [
    "KERNEL_RUNTIME",
    "CacheError",
    "CompileError",
    "CppError",
    "CppKernelRuntime",
    "CppOptions",
    "IsaError",
    "KernelError",
    "LaunchError",
]

KERNEL_RUNTIME = CppKernelRuntime()
"""The entry point `wrapper_ir.kernel_runtimes: cpp`, with default options."""
