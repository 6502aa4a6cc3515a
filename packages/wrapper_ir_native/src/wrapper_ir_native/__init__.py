"""Runs native libraries of Wrapper IR with numpy alone; their C and C++ headers.

Names are loaded on first use: the file format is read without numpy.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wrapper_ir_native.device import DeviceTensor
    from wrapper_ir_native.dlpack import RawTensor
    from wrapper_ir_native.errors import (
        ArgumentError,
        ArtifactError,
        CacheError,
        ConstantError,
        CopyError,
        DivisionError,
        ExecutionError,
        ExpressionError,
        IsaError,
        KernelIndexError,
        LaunchError,
        NativeError,
        OutputError,
        TensorCheckError,
        UnsupportedError,
    )
    from wrapper_ir_native.headers import cmake_prefix_path, include_path
    from wrapper_ir_native.loading import load, metadata
    from wrapper_ir_native.program import NativeProgram

__all__ = [
    "ArgumentError",
    "ArtifactError",
    "CacheError",
    "ConstantError",
    "CopyError",
    "DeviceTensor",
    "DivisionError",
    "ExecutionError",
    "ExpressionError",
    "IsaError",
    "KernelIndexError",
    "LaunchError",
    "NativeError",
    "NativeProgram",
    "OutputError",
    "RawTensor",
    "TensorCheckError",
    "UnsupportedError",
    "cmake_prefix_path",
    "include_path",
    "load",
    "metadata",
]

_MODULES = {
    "device": ("DeviceTensor",),
    "dlpack": ("RawTensor",),
    "errors": (
        "ArgumentError",
        "ArtifactError",
        "CacheError",
        "ConstantError",
        "CopyError",
        "DivisionError",
        "ExecutionError",
        "ExpressionError",
        "IsaError",
        "KernelIndexError",
        "LaunchError",
        "NativeError",
        "OutputError",
        "TensorCheckError",
        "UnsupportedError",
    ),
    "headers": ("cmake_prefix_path", "include_path"),
    "loading": ("load", "metadata"),
    "program": ("NativeProgram",),
}
"""The public names of each module; a test compares them with `__all__`."""


def __getattr__(name: str) -> object:
    for module, names in _MODULES.items():
        if name in names:
            value: object = getattr(import_module(f"{__name__}.{module}"), name)  # by the table
            vars(sys.modules[__name__])[name] = value
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
