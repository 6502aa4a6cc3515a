"""Torch's higher-order operators in the text of modules."""

from __future__ import annotations

from functools import reduce

from wrapper_ir.operators.policy import inner_operator
from wrapper_ir.support.quoting import python_attribute
from wrapper_ir_torch import HIGHER_ORDER, RUNNERS

_VERBS = {"run_and_save_rng_state": "saving_state", "run_with_rng_state": "with_state"}


def callee_text(operator: str, overload: str) -> str:
    """Returns the operator as one callable expression."""
    outer = python_attribute(f"torch.ops.{HIGHER_ORDER}", operator)
    if operator not in RUNNERS:
        return outer
    inner = reduce(python_attribute, inner_operator(overload) or (), "torch.ops")
    if RUNNERS[operator] == 0:
        return f"lambda *args, **kwargs: {outer}({inner}, *args, **kwargs)"
    return f"lambda state, *args, **kwargs: {outer}(state, {inner}, *args, **kwargs)"


def callee_name(operator: str, overload: str) -> str:
    """Returns a readable variable name for the operator."""
    names = inner_operator(overload) if operator in RUNNERS else None
    return f"{names[1]}_{_VERBS[operator]}" if names else f"{operator}_values"
