"""Arithmetic that Python's operators do not have."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from typing import Any

import torch

from wrapper_ir.errors import DivisionError, ExpressionError
from wrapper_ir.expr import arithmetic

__all__ = ["EXACT", "PARTIAL", "choose", "int64", "partial_call", "power", "total_call", "truth"]


# Any: Python's numbers and torch's symbolic ones.
def int64(x: Any) -> Any:
    """The number itself; raises ExpressionError WIR408 for an int that is not an int64."""
    return arithmetic.int64(x) if isinstance(x, int) else x


def power(base: Any, exp: Any) -> Any:
    """The power; raises ExpressionError WIR408 where one of ints is too long, before it is computed."""
    return arithmetic.power(base, exp) if isinstance(base, int) and isinstance(exp, int) else base**exp


PARTIAL: Mapping[str, Callable[..., Any]] = {
    "floordiv": operator.floordiv,
    "mod": operator.mod,
    "truediv": operator.truediv,
    "pow": power,
    **{
        name: getattr(math, name)  # math's own names
        for name in ("sqrt", "exp", "log", "log2", "sin", "cos", "tan", "sinh", "cosh", "tanh")
    },
    **{name: getattr(math, name) for name in ("asin", "acos", "atan", "asinh")},
    "floor": math.floor,
    "ceil": math.ceil,
    "round": round,
    "to_int": torch.sym_int,
}
"""Functions that have no value for some arguments, by name."""


_torch: Any = torch  # leaves these untyped
_SYMBOLIC = ("sqrt", "cos", "cosh", "sin", "sinh", "tan", "tanh", "asin", "acos", "atan", "log2")
EXACT: Mapping[str, Callable[..., Any]] = {
    **PARTIAL,
    # of these torch has variants over symbolic numbers, under private names
    **{name: getattr(torch, f"_sym_{name}") for name in _SYMBOLIC},
}
"""The same functions, over symbolic numbers too."""
_WHOLE = frozenset({"floordiv", "mod", "pow"})  # give an int for ints


def total_call(name: str, *args: Any) -> Any:
    """The function's value; raises ExpressionError WIR402 where it has none."""
    try:
        return EXACT[name](*args)
    except (ArithmeticError, ValueError) as error:
        if isinstance(error, ExpressionError):
            raise
        shown = ", ".join(map(str, args))
        kind = DivisionError if isinstance(error, ZeroDivisionError) else ExpressionError
        raise kind("WIR402", f"cannot evaluate {name}({shown}): {error}") from error


def partial_call(name: str, *args: Any) -> Any:
    """The function's value, or 0 where it has none: for operands of conditions that may turn out not to matter, which a
    graph computes nevertheless."""
    try:
        return PARTIAL[name](*args)
    except (ArithmeticError, ValueError):
        whole = name in _WHOLE and not any(isinstance(arg, float | torch.SymFloat) for arg in args)
        return 0 if whole else 0.0


def choose(condition: Any, yes: Any, no: Any) -> Any:
    """One of two numbers. Torch's own function takes two constants or two symbolic numbers."""
    if isinstance(condition, bool):
        return yes if condition else no
    return _torch.sym_ite(condition, _symbolic(yes, condition), _symbolic(no, condition))


def _symbolic(x: Any, like: torch.SymBool) -> Any:
    match x:
        case bool():
            return _torch.SymBool(like.node.wrap_bool(x))
        case int():
            return _torch.SymInt(like.node.wrap_int(x))
        case float():
            return _torch.SymFloat(like.node.wrap_float(x))
        case _:
            return x


def truth(x: Any) -> Any:
    """The number as a bool."""
    return x if isinstance(x, bool | torch.SymBool) else x != 0
