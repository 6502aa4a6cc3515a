"""What a kernel is, whatever it is called."""

from __future__ import annotations

from collections.abc import Mapping

from wrapper_ir.ir.kernels import KernelDef, MultiKernel
from wrapper_ir.json.kernel_hash import content_hash, multi_hash


def kernel_hash(kernel: KernelDef, kernels: Mapping[str, KernelDef]) -> str:
    """Sha256 (hex) over what decides what the kernel does; `kernels` are the program's, by name."""
    return multi_hash(kernel, kernels) if isinstance(kernel, MultiKernel) else content_hash(kernel)
