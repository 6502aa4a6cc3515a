"""Runs the Python source of expressions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from wrapper_ir.expr import Expr, Number, to_python
from wrapper_ir.expr.arithmetic import power


def compile_python(e: Expr, params: Sequence[str]) -> Callable[..., Number]:
    """Returns a Python function of the symbols `params`, in that order, that computes `e`."""
    scope = {"math": math, "power": power}
    function: Callable[..., Number] = eval(f"lambda {', '.join(params)}: {to_python(e)}", scope)
    return function
