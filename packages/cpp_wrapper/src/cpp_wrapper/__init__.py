"""Wrapper IR to C++: whole programs as libraries, and compiled CPU kernels."""

from __future__ import annotations

from cpp_wrapper.emit.program import Sources
from cpp_wrapper.emitter import EMITTER, CppEmitter
from cpp_wrapper.errors import (
    CacheError,
    CompileError,
    ConstantError,
    CppError,
    EmitError,
    IsaError,
    KernelError,
    LaunchError,
)
from cpp_wrapper.kernels.options import CppOptions
from cpp_wrapper.kernels.runtime import CppKernelRuntime
from cpp_wrapper.library.api import build, emit, load, metadata
from cpp_wrapper.library.project import cmake_prefix_path

__all__ = [
    "EMITTER",
    "KERNEL_RUNTIME",
    "CacheError",
    "CompileError",
    "ConstantError",
    "CppEmitter",
    "CppError",
    "CppKernelRuntime",
    "CppOptions",
    "EmitError",
    "IsaError",
    "KernelError",
    "LaunchError",
    "Sources",
    "build",
    "cmake_prefix_path",
    "emit",
    "load",
    "metadata",
]

KERNEL_RUNTIME = CppKernelRuntime()
"""The entry point `wrapper_ir.kernel_runtimes: cpp`, with default options."""
