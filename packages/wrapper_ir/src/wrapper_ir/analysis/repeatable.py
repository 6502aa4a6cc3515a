"""Operators that only launch kernels, which depend on their arguments and on settings of the tensor library.

A runtime may repeat these launches in place of a call (see `wrapper_ir.plugins.repeating.RepeatingRuntime`).
Such an operator reads no number from a tensor and draws no random number. Matmuls write their last argument;
attention allocates its results.
"""

from __future__ import annotations

from wrapper_ir import ir
from wrapper_ir.expr import Expr

_MATMULS = frozenset({"aten::addmm.out", "aten::baddbmm.out", "aten::bmm.out", "aten::mm.out"})
_ATTENTION = frozenset(
    {
        "aten::_scaled_dot_product_efficient_attention",
        "aten::_scaled_dot_product_efficient_attention_backward",
        "aten::_scaled_dot_product_flash_attention",
        "aten::_scaled_dot_product_flash_attention_backward",
    }
)
DROPOUT = "dropout_p"
"""The argument of attention that must be 0, so that no random numbers are drawn."""


def is_repeatable(name: str) -> bool:
    """Returns whether calls of the operator may be replaced by repeated launches."""
    return name in _MATMULS or makes_results(name)


def makes_results(name: str) -> bool:
    """Returns whether the operator allocates its results. Otherwise it returns its last argument."""
    return name in _ATTENTION


def repeats_on(name: str, device: ir.Device, dropout: object = None) -> bool:
    """Returns whether a call of the operator on this device may be repeated; `dropout` is its argument
    `DROPOUT`, if any."""
    number = dropout.constant if isinstance(dropout, Expr) else dropout
    is_zero = dropout is None or (isinstance(number, int | float) and number == 0)
    return is_repeatable(name) and is_zero and device.traits.replays_calls and device.index is not None
