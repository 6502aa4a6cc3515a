"""Source text of kernels, which stored and emitted programs keep in separate files."""

from __future__ import annotations

import dataclasses

from wrapper_ir.ir.kernels.definition import KernelDef
from wrapper_ir.ir.kernels.host import CppKernel, ForeignKernel
from wrapper_ir.ir.kernels.multi import MultiKernel, OperatorKernel
from wrapper_ir.ir.kernels.triton import TritonKernel

_SUFFIXES = {CppKernel.kind: ".cpp", TritonKernel.kind: ".py", ForeignKernel.kind: ".txt"}


def source_suffix(kernel: KernelDef) -> str:
    """Returns the suffix of the source file; '' for a kernel without a source."""
    return _SUFFIXES.get(kernel.kind, "")


def source_of(kernel: KernelDef) -> str:
    """Returns the source text; '' for a kernel without a source."""
    match kernel:
        case ForeignKernel():
            return kernel.payload
        case MultiKernel() | OperatorKernel():
            return ""
        case _:
            return kernel.source


def with_source(kernel: KernelDef, source: str) -> KernelDef:
    """Returns the kernel with another source text."""
    match kernel:
        case ForeignKernel():
            return dataclasses.replace(kernel, payload=source)
        case MultiKernel() | OperatorKernel():
            return kernel
        case _:
            return dataclasses.replace(kernel, source=source)
