"""Kernel definitions as typed data.

A definition holds all that a runtime needs to compile and launch: nothing is looked up elsewhere. Its identity is
`content_hash`, a hash over everything but the name.
"""

from wrapper_ir.kernels.binary import KernelBinary
from wrapper_ir.kernels.host import CppKernel, ForeignKernel
from wrapper_ir.kernels.identity import KernelDef, content_hash, multi_hash, runtime_kind
from wrapper_ir.kernels.multi import Choice, MultiKernel, Variant, merged_access, needed
from wrapper_ir.kernels.operators import OperatorConstant, OperatorKernel
from wrapper_ir.kernels.params import Access, KernelParam, ParamKind
from wrapper_ir.kernels.sources import source_of, source_suffix, with_source
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
    "Choice",
    "ConstantValue",
    "CppKernel",
    "Derivation",
    "ForeignKernel",
    "KernelBinary",
    "KernelDef",
    "KernelNames",
    "KernelParam",
    "MultiKernel",
    "OperatorConstant",
    "OperatorKernel",
    "ParamKind",
    "TritonConfig",
    "TritonKernel",
    "Variant",
    "content_hash",
    "kernel_symbols",
    "merged_access",
    "multi_hash",
    "needed",
    "runtime_kind",
    "source_of",
    "source_suffix",
    "with_source",
]
