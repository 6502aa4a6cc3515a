"""Operators that do nothing but launch kernels, which follow from their arguments and from settings of the tensor library.

A runtime may launch these kernels again in place of a call (see `wrapper_ir.plugins.repeating.RepeatingRuntime`). Such an operator reads no
number from a tensor and draws no random number. Matmuls write their last argument; attention makes its results.
"""

from __future__ import annotations

from wrapper_ir import ir
from wrapper_ir.expr import Float, Int

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
"""The argument of attention that has to be 0: no random numbers."""


def is_repeatable(name: str) -> bool:
    """Whether calls of the operator may be repeated so."""
    return name in _MATMULS or makes_results(name)


def makes_results(name: str) -> bool:
    """Whether the operator allocates what it returns. Otherwise it returns its last argument."""
    return name in _ATTENTION


def repeats_on(name: str, device: ir.Device, dropout: object = None) -> bool:
    """Whether a call of the operator may be repeated that works on this device; `dropout` is what it gives for `DROPOUT`, if it does."""
    number = dropout.value if isinstance(dropout, Int | Float) else dropout
    is_plain = number is None or (isinstance(number, int | float) and number == 0)
    return is_repeatable(name) and is_plain and device.traits.replays_calls and device.index is not None
