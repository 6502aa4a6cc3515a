"""What a kernel is, and which kernels a program needs."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from wrapper_ir.ir.kernels.host import CppKernel, ForeignKernel
from wrapper_ir.ir.kernels.multi import MultiKernel, OperatorKernel
from wrapper_ir.ir.kernels.triton import TritonKernel

KernelDef = CppKernel | TritonKernel | MultiKernel | OperatorKernel | ForeignKernel


def runtime_kind(kernel: KernelDef) -> str:
    """The name under which the kernel's `KernelRuntime` is registered."""
    match kernel:
        case ForeignKernel():
            return kernel.runtime
        case MultiKernel() | OperatorKernel():  # which are chosen from beside Triton kernels
            return TritonKernel.kind
        case _:
            return kernel.kind


def needed(kernels: Iterable[KernelDef], launched: Collection[str]) -> tuple[KernelDef, ...]:
    """Of a program's kernels, those that are launched and those that launched ones choose from, in their order."""
    kernels, names = tuple(kernels), set(launched)
    multi = [k for k in kernels if isinstance(k, MultiKernel) and k.name in names]
    names.update(v.kernel for k in multi for v in k.variants)
    return tuple(k for k in kernels if k.name in names)
