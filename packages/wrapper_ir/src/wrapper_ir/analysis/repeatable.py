"""Operators that do nothing but launch kernels, which follow from their arguments and from settings of the tensor library.

A runtime may launch these kernels again in place of a call (see `wrapper_ir.repeating.RepeatingRuntime`). Such an operator allocates
no result, reads no number from a tensor, and draws no random number.
"""

from __future__ import annotations

from wrapper_ir.types import Device

__all__ = ["is_repeatable", "repeats_on"]

_PRODUCTS = frozenset({"aten::addmm.out", "aten::baddbmm.out", "aten::bmm.out", "aten::mm.out"})


def is_repeatable(name: str) -> bool:
    """Whether calls of the operator may be repeated so."""
    return name in _PRODUCTS


def repeats_on(name: str, device: Device) -> bool:
    """Whether calls of the operator may be repeated whose result lies on this device."""
    return is_repeatable(name) and device.type == "cuda" and device.index is not None
