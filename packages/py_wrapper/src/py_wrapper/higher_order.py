"""Torch's higher-order operators, of which a program may call those whose calls have a schema of their own.

`higher_order::print.Tensor(str format_str, Tensor arg0) -> ()` prints; the overload tells calls with other arguments
apart. `higher_order::run_with_rng_state.aten__rand__default(Tensor rng_state, SymInt[] size, ...) -> Tensor` runs
`aten::rand` from a given state of the random generator: the overload names the operator.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

__all__ = ["NAMESPACE", "callee_name", "callee_text", "find"]

NAMESPACE = "higher_order"

# Where the operator that is run stands among the arguments.
_RUNNERS = {"run_and_save_rng_state": 0, "run_with_rng_state": 1}
_VERBS = {"run_and_save_rng_state": "saving_state", "run_with_rng_state": "with_state"}


def _inner(overload: str) -> list[str]:
    """Namespace, operator and overload of the operator that is run; empty for other names."""
    namespace, _, rest = overload.partition("__")
    operator, _, inner = rest.rpartition("__")
    return [namespace, operator, inner] if namespace and operator and inner else []


def find(operator: str, overload: str) -> Callable[..., Any]:
    """The callable; raises AttributeError where torch has none. Any: whatever operators take and return."""
    outer: Callable[..., Any] = getattr(torch.ops.higher_order, operator)  # operators are found by name
    position = _RUNNERS.get(operator)
    if position is None:
        return outer
    names = _inner(overload)
    if not names:
        raise AttributeError(f"{overload!r} names no operator to run")
    inner: Any = torch.ops
    for name in names:
        inner = getattr(inner, name)
    return lambda *args, **kwargs: outer(*args[:position], inner, *args[position:], **kwargs)


def callee_text(operator: str, overload: str) -> str:
    """The same callable as a Python expression."""
    outer = f"torch.ops.{NAMESPACE}.{operator}"
    if operator not in _RUNNERS:
        return outer
    inner = ".".join(("torch.ops", *_inner(overload)))
    if _RUNNERS[operator] == 0:
        return f"lambda *args, **kwargs: {outer}({inner}, *args, **kwargs)"
    return f"lambda state, *args, **kwargs: {outer}(state, {inner}, *args, **kwargs)"


def callee_name(operator: str, overload: str) -> str:
    """A readable name for it."""
    names = _inner(overload) if operator in _RUNNERS else []
    return f"{names[1]}_{_VERBS[operator]}" if names else f"{operator}_values"
