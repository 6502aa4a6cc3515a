"""The union of kernel definitions, and the kernels that launches need."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from wrapper_ir.ir.kernels.host import CppKernel, ForeignKernel
from wrapper_ir.ir.kernels.multi import MultiKernel, OperatorKernel
from wrapper_ir.ir.kernels.triton import TritonKernel

KernelDef = CppKernel | TritonKernel | MultiKernel | OperatorKernel | ForeignKernel


def runtime_kind(kernel: KernelDef) -> str:
    """Returns the name under which the kernel's `KernelRuntime` is registered."""
    match kernel:
        case ForeignKernel():
            return kernel.runtime
        case MultiKernel() | OperatorKernel():  # alternatives to Triton kernels
            return TritonKernel.kind
        case _:
            return kernel.kind


def needed(kernels: Iterable[KernelDef], launched: Collection[str]) -> tuple[KernelDef, ...]:
    """Returns the launched kernels and the variants of launched multi-kernels, in the order of `kernels`."""
    kernels, names = tuple(kernels), set(launched)
    for kernel in kernels:
        match kernel:
            case MultiKernel(name=name, variants=variants) if name in launched:
                names.update(variant.kernel for variant in variants)
    return tuple(k for k in kernels if k.name in names)
