"""Operators that do nothing but launch kernels, which follow from their arguments and from settings of the tensor library.

A runtime may launch these kernels again in place of a call (see `wrapper_ir.repeating.RepeatingRuntime`). Such an operator allocates
no result, reads no number from a tensor, and draws no random number.
"""

from __future__ import annotations

from wrapper_ir.types import TensorType
from wrapper_ir.values import Value

__all__ = ["is_repeatable", "repeats_on"]

_PRODUCTS = frozenset({"aten::addmm.out", "aten::baddbmm.out", "aten::bmm.out", "aten::mm.out"})


def is_repeatable(name: str) -> bool:
    """Whether calls of the operator may be repeated so."""
    return name in _PRODUCTS


def repeats_on(name: str, result: object) -> str | None:
    """The device on which a call may be repeated whose `out` argument this is; None where it may not."""
    if not is_repeatable(name) or not isinstance(result, Value) or not isinstance(result.type, TensorType):
        return None
    device = result.type.device
    return str(device) if device.type == "cuda" and device.index is not None else None
