"""Operators that only a process with Python can call."""

from __future__ import annotations

import torch
from torch import library

_KEYS = (
    *("CPU", "CUDA", "HPU", "MPS", "MTIA", "PrivateUse1", "XPU"),
    *("MkldnnCPU", "QuantizedCPU", "QuantizedCUDA"),
    *("NestedTensorCPU", "NestedTensorCUDA", "SparseCPU", "SparseCUDA", "SparseCsrCPU", "SparseCsrCUDA"),
    *("CompositeImplicitAutograd", "CompositeExplicitAutograd", "CompositeExplicitAutogradNonFunctional"),
)
"""Where kernels that compute are registered: for a kind of tensors, or for all that have none of their own."""


def is_python_only(name: str) -> bool:
    """Whether no kernel that computes `namespace::op.overload` was registered in C++: its kernels, or where it has none
    its schema, come from Python."""
    has = torch._C._dispatch_has_kernel_for_dispatch_key
    keys = [key for key in _KEYS if has(name, key)]
    # The registrations from Python, as `namespace/op/key`: the dispatcher itself does not tell them apart.
    place = name.replace("::", "/").removesuffix(".default")
    if keys:
        return all(f"{place}/{key}" in library._impls for key in keys)
    return name in library._defs
