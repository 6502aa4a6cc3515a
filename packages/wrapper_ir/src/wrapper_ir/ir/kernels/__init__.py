"""Kernel definitions as typed data.

A definition holds all that a runtime needs to compile and launch: nothing is looked up elsewhere. Its identity is
`wrapper_ir.json.kernel_hash.content_hash`, a hash over everything but the name.
"""

from wrapper_ir.ir.kernels.binary import KernelBinary
from wrapper_ir.ir.kernels.compiled import (
    DriverParam,
    DriverParamKind,
    ImageKind,
    LaunchFacts,
    Scratch,
    TensorMap,
)
from wrapper_ir.ir.kernels.constants import ConstantValue, ExactConstants, ScalarConstant, constant_fault
from wrapper_ir.ir.kernels.definition import KernelDef, needed, runtime_kind
from wrapper_ir.ir.kernels.host import CppKernel, CppSource, ForeignKernel
from wrapper_ir.ir.kernels.multi import (
    Choice,
    MultiKernel,
    OperatorConstant,
    OperatorKernel,
    Variant,
    merged_access,
)
from wrapper_ir.ir.kernels.params import Access, KernelAccess, KernelParam, ParamKind, Requirement
from wrapper_ir.ir.kernels.sources import source_of, source_suffix, with_source
from wrapper_ir.ir.kernels.triton import (
    MAX_GRID,
    Derivation,
    KernelNames,
    TritonConfig,
    TritonKernel,
    bound_grid,
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
    "ExactConstants",
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
    "ScalarConstant",
    "Scratch",
    "TensorMap",
    "TritonConfig",
    "TritonKernel",
    "Variant",
    "bound_grid",
    "constant_fault",
    "kernel_symbols",
    "merged_access",
    "needed",
    "runtime_kind",
    "source_of",
    "source_suffix",
    "with_source",
]
