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
"""Dispatch keys with kernels that compute: for one backend, or composite kernels."""


def is_python_only(name: str) -> bool:
    """Returns whether `namespace::op.overload` has no C++ kernel that computes it.

    Its kernels, or its schema if it has no kernels, are then registered from Python.
    """
    has = torch._C._dispatch_has_kernel_for_dispatch_key
    keys = [key for key in _KEYS if has(name, key)]
    # Python registrations have keys `namespace/op/key`. The dispatcher itself does not distinguish them.
    place = name.replace("::", "/").removesuffix(".default")
    if keys:
        return all(f"{place}/{key}" in library._impls for key in keys)
    return name in library._defs
