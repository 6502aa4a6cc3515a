"""Torch's higher-order operators, of which a program may call those whose calls have a schema of their own.

`higher_order::print.Tensor(str format_str, Tensor arg0) -> ()` prints; the overload tells calls with other arguments
apart. `higher_order::run_with_rng_state.aten__rand__default(Tensor rng_state, SymInt[] size, ...) -> Tensor` runs
`aten::rand` from a given state of the random generator: the overload names the operator.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import torch

from wrapper_ir.operators import inner_operator
from wrapper_ir.quoting import python_attribute

__all__ = ["NAMESPACE", "callee_name", "callee_text", "find"]

NAMESPACE = "higher_order"

# Where the operator that is run stands among the arguments.
_RUNNERS = {"run_and_save_rng_state": 0, "run_with_rng_state": 1}
_VERBS = {"run_and_save_rng_state": "saving_state", "run_with_rng_state": "with_state"}


def find(operator: str, overload: str) -> Callable[..., Any]:
    """The callable; raises AttributeError where torch has none. Any: whatever operators take and return."""
    outer: Callable[..., Any] = getattr(torch.ops.higher_order, operator)  # operators are found by name
    if not isinstance(outer, torch._ops.HigherOrderOperator):
        raise AttributeError(f"it is a {type(outer).__name__}")
    position = _RUNNERS.get(operator)
    if position is None:
        return outer
    names = inner_operator(overload)
    if not names:
        raise AttributeError(f"{overload!r} names no operator to run")
    inner: Any = torch.ops
    for name in names:
        inner = getattr(inner, name)
    return lambda *args, **kwargs: outer(*args[:position], inner, *args[position:], **kwargs)


def callee_text(operator: str, overload: str) -> str:
    """The same callable as a Python expression."""
    outer = python_attribute(f"torch.ops.{NAMESPACE}", operator)
    if operator not in _RUNNERS:
        return outer
    inner = reduce(python_attribute, inner_operator(overload) or (), "torch.ops")
    if _RUNNERS[operator] == 0:
        return f"lambda *args, **kwargs: {outer}({inner}, *args, **kwargs)"
    return f"lambda state, *args, **kwargs: {outer}(state, {inner}, *args, **kwargs)"


def callee_name(operator: str, overload: str) -> str:
    """A readable name for it."""
    names = inner_operator(overload) if operator in _RUNNERS else None
    return f"{names[1]}_{_VERBS[operator]}" if names else f"{operator}_values"
