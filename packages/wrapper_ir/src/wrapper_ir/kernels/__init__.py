"""Kernel definitions as typed data.

A definition holds all that a runtime needs to compile and launch: nothing is looked up elsewhere. Its identity is
`content_hash`, a hash over everything but the name.
"""

from wrapper_ir.kernels.binary import KernelBinary, find_binary
from wrapper_ir.kernels.compiled import (
    DriverParam,
    DriverParamKind,
    ImageKind,
    LaunchFacts,
    Scratch,
    TensorMap,
)
from wrapper_ir.kernels.grids import MAX_GRID, bound_grid
from wrapper_ir.kernels.host import CppKernel, CppSource, ForeignKernel
from wrapper_ir.kernels.identity import KernelDef, content_hash, multi_hash, runtime_kind
from wrapper_ir.kernels.multi import Choice, MultiKernel, Variant, merged_access, needed
from wrapper_ir.kernels.operators import OperatorConstant, OperatorKernel
from wrapper_ir.kernels.params import Access, KernelAccess, KernelParam, ParamKind
from wrapper_ir.kernels.requirements import Requirement
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
    "MAX_GRID",
    "Access",
    "Choice",
    "ConstantValue",
    "CppKernel",
    "CppSource",
    "Derivation",
    "DriverParam",
    "DriverParamKind",
    "ForeignKernel",
    "ImageKind",
    "KernelAccess",
    "KernelBinary",
    "KernelDef",
    "KernelNames",
    "KernelParam",
    "LaunchFacts",
    "MultiKernel",
    "OperatorConstant",
    "OperatorKernel",
    "ParamKind",
    "Requirement",
    "Scratch",
    "TensorMap",
    "TritonConfig",
    "TritonKernel",
    "Variant",
    "bound_grid",
    "content_hash",
    "find_binary",
    "kernel_symbols",
    "merged_access",
    "multi_hash",
    "needed",
    "runtime_kind",
    "source_of",
    "source_suffix",
    "with_source",
]
