"""Calls into torch that a kernel runtime with native code makes faster, where one is installed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import torch

from wrapper_ir.errors import PluginError
from wrapper_ir.protocols import NativeCalls
from wrapper_ir.registry import kernel_runtime

__all__ = ["address_check", "product"]

_RUNTIME = "triton"
"""The kernel runtime that is asked: programs for CUDA have loaded it already."""


def _native() -> NativeCalls | None:
    try:
        found = kernel_runtime(_RUNTIME)
    except PluginError:
        return None
    return found if isinstance(found, NativeCalls) else None


@cache
def product(name: str) -> Callable[..., Any]:  # Any: tensors
    """A matrix product of torch's, `mm`, `addmm`, `bmm` or `baddbmm`, for tensors of a CUDA device and its keyword `out`; it
    takes all else that torch's function does."""
    native = _native()
    found = None if native is None else native.product(name, "cuda")
    return getattr(torch, name) if found is None else found  # functions are found by name


def address_check(
    positions: Sequence[int], addresses: Sequence[int]
) -> Callable[[list[Any]], bool] | None:  # Any: tensors, and what stands beside them
    """What says of a list whether its tensors at these positions lie at these addresses; None where no native code does."""
    native = _native()
    return None if native is None else native.address_check(positions, addresses)
