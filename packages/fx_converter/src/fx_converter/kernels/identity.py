"""Identity of kernels, independent of their names."""

from __future__ import annotations

from collections.abc import Mapping

from wrapper_ir import ir
from wrapper_ir.json.kernel_hash import content_hash, multi_hash


def kernel_hash(kernel: ir.KernelDef, kernels: Mapping[str, ir.KernelDef]) -> str:
    """Returns the SHA-256 (hex) of the content of a kernel that determines its behavior; `kernels` are the
    program's, by name."""
    return multi_hash(kernel, kernels) if isinstance(kernel, ir.MultiKernel) else content_hash(kernel)
