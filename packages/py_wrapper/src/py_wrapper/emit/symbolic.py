"""Writes symbols."""

from __future__ import annotations

from py_wrapper.emit.scope import FunctionScope
from wrapper_ir_lowering.steps import Define


def define(step: Define, scope: FunctionScope) -> None:
    """Assigns a symbol, a Python number that is computed once."""
    text = scope.int64(step.expr)
    scope.out.line(f"{scope.define(step.symbol)} = {text}")
