"""The text of a kernel, which has a file of its own where programs are stored or emitted."""

from __future__ import annotations

import dataclasses

from wrapper_ir.ir.kernels.definition import KernelDef
from wrapper_ir.ir.kernels.host import CppKernel, ForeignKernel
from wrapper_ir.ir.kernels.multi import MultiKernel, OperatorKernel
from wrapper_ir.ir.kernels.triton import TritonKernel

_SUFFIXES = {CppKernel.kind: ".cpp", TritonKernel.kind: ".py", ForeignKernel.kind: ".txt"}


def source_suffix(kernel: KernelDef) -> str:
    """How the name of the file ends; '' for a kernel that has no text."""
    return _SUFFIXES.get(kernel.kind, "")


def source_of(kernel: KernelDef) -> str:
    """The text; '' for a kernel that has none."""
    match kernel:
        case ForeignKernel():
            return kernel.payload
        case MultiKernel() | OperatorKernel():
            return ""
        case _:
            return kernel.source


def with_source(kernel: KernelDef, source: str) -> KernelDef:
    """The same kernel with another text."""
    match kernel:
        case ForeignKernel():
            return dataclasses.replace(kernel, payload=source)
        case MultiKernel() | OperatorKernel():
            return kernel
        case _:
            return dataclasses.replace(kernel, source=source)
