"""Kernel definitions as typed data.

A definition holds all that a runtime needs to compile and launch: nothing is looked up elsewhere. Its identity is
`content_hash`, a hash over everything but the name.
"""

from wrapper_ir.kernels.host import CppKernel, ForeignKernel
from wrapper_ir.kernels.identity import KernelDef, content_hash, runtime_kind
from wrapper_ir.kernels.params import Access, KernelParam, ParamKind
from wrapper_ir.kernels.triton import (
    ConstantValue,
    Derivation,
    KernelNames,
    TritonConfig,
    TritonKernel,
    kernel_symbols,
)

__all__ = [
    "Access",
    "ConstantValue",
    "CppKernel",
    "Derivation",
    "ForeignKernel",
    "KernelDef",
    "KernelNames",
    "KernelParam",
    "ParamKind",
    "TritonConfig",
    "TritonKernel",
    "content_hash",
    "kernel_symbols",
    "runtime_kind",
]
