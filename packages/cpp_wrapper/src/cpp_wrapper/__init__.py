"""Wrapper IR to C++: whole programs as libraries, and compiled CPU kernels.

Names are loaded on first use: loading a library needs little of this package.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wrapper_ir.support.lazy import loaded_on_use

if TYPE_CHECKING:
    from cpp_wrapper.emitter import EMITTER, CppEmitter
    from cpp_wrapper.errors import (
        CacheError,
        CompileError,
        ConstantError,
        CopyError,
        CppError,
        DeviceError,
        EmitError,
        IsaError,
        KernelError,
        LaunchError,
        OutputError,
    )
    from cpp_wrapper.kernels.options import CppOptions, OperatorSource
    from cpp_wrapper.kernels.runtime import KERNEL_RUNTIME, CppKernelRuntime
    from cpp_wrapper.library.api import build, emit
    from cpp_wrapper.library.load import load, metadata
    from cpp_wrapper.library.project import cmake_prefix_path
    from cpp_wrapper.sources.program import Sources

__all__ = [
    "EMITTER",
    "KERNEL_RUNTIME",
    "CacheError",
    "CompileError",
    "ConstantError",
    "CopyError",
    "CppEmitter",
    "CppError",
    "CppKernelRuntime",
    "CppOptions",
    "DeviceError",
    "EmitError",
    "IsaError",
    "KernelError",
    "LaunchError",
    "OperatorSource",
    "OutputError",
    "Sources",
    "build",
    "cmake_prefix_path",
    "emit",
    "load",
    "metadata",
]

_MODULES = {
    "emitter": ("CppEmitter", "EMITTER"),
    "errors": (
        "CacheError",
        "CompileError",
        "ConstantError",
        "CopyError",
        "CppError",
        "DeviceError",
        "EmitError",
        "IsaError",
        "KernelError",
        "LaunchError",
        "OutputError",
    ),
    "kernels.options": ("CppOptions", "OperatorSource"),
    "kernels.runtime": ("CppKernelRuntime", "KERNEL_RUNTIME"),
    "library.api": ("build", "emit"),
    "library.load": ("load", "metadata"),
    "library.project": ("cmake_prefix_path",),
    "sources.program": ("Sources",),
}
"""The public names of each module; a test compares them with `__all__`."""

__getattr__, __dir__ = loaded_on_use(__name__, _MODULES)
