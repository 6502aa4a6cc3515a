"""What a kernel is, apart from its name, and which kernels a program needs."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Collection, Iterable, Mapping

from wrapper_ir.kernels.host import CppKernel, ForeignKernel
from wrapper_ir.kernels.multi import MultiKernel, OperatorKernel
from wrapper_ir.kernels.triton import TritonKernel

__all__ = ["KernelDef", "content_hash", "multi_hash", "needed", "runtime_kind"]

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


def content_hash(kernel: KernelDef) -> str:
    """Sha256 (hex) over the JSON of everything but the kernel's name. Of a MultiKernel, over the names of its kernels:
    `multi_hash` looks into them."""
    from wrapper_ir.json.decode import dump
    from wrapper_ir.json.records import encode_kernel  # which imports this module's kernels

    content = {name: x for name, x in encode_kernel(kernel).items() if name != "name"}
    return hashlib.sha256(dump(content).encode()).hexdigest()


def multi_hash(kernel: MultiKernel, kernels: Mapping[str, KernelDef]) -> str:
    """As `content_hash`, over the ordered contents of the kernels that it chooses from, whatever they are called."""
    variants = (dataclasses.replace(v, kernel=content_hash(kernels[v.kernel])) for v in kernel.variants)
    return content_hash(dataclasses.replace(kernel, variants=tuple(variants)))


def needed(kernels: Iterable[KernelDef], launched: Collection[str]) -> tuple[KernelDef, ...]:
    """Of a program's kernels, those that are launched and those that launched ones choose from, in their order."""
    kernels = tuple(kernels)
    by_name: Mapping[str, KernelDef] = {k.name: k for k in kernels}
    names = set(launched)
    for name in launched:
        kernel = by_name.get(name)
        if isinstance(kernel, MultiKernel):
            names.update(v.kernel for v in kernel.variants)
    return tuple(k for k in kernels if k.name in names)
